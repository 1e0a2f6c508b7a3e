#include "app/profile/module_profile.h"

#include <algorithm>

#include "engine/core/error.h"
#include "lora/kind.h"

namespace ft {
namespace {

// Returns the module of a label, which is the name of a module or of a parameter.
std::string_view module_of(std::string_view label) {
  for (const std::string_view of_parameter :
       {".weight", ".bias", ".absmax", ".nested_absmax", ".nested_offset"})
    if (label.ends_with(of_parameter)) label.remove_suffix(of_parameter.size());
  return label;
}

// Returns the module of a parameter. An adapter's matrices belong to the Linear that it adapts.
std::string_view module_of_parameter(std::string_view name) {
  constexpr std::string_view kOfPeft = "base_model.model.";
  if (name.starts_with(kOfPeft)) name.remove_prefix(kOfPeft.size());
  name = module_of(name);
  for (const lora::AdapterKind* kind : lora::AdapterKind::all())
    if (const std::size_t at = name.find(str(".", kind->name, "_")); at != name.npos)
      return name.substr(0, at);
  return name;
}

ModuleProfile& part_of(ModuleProfile& whole, const std::string& name) {
  const auto at = std::ranges::find(whole.parts, name, &ModuleProfile::name);
  return at != whole.parts.end() ? *at : whole.parts.emplace_back(ModuleProfile{.name = name});
}

// Calls f(module) for the root and for each module on the path to `name`. Adds those that are missing.
void on_the_way(ModuleProfile& root, std::string_view name, const auto& f) {
  ModuleProfile* at = &root;
  f(*at);
  for (std::size_t end = 0; end != name.npos && !name.empty();) {
    end = name.find('.', end + 1);
    at = &part_of(*at, std::string(name.substr(0, end)));
    f(*at);
  }
}

void add(ModuleProfile& to, const ModuleProfile& m) {
  to.forward += m.forward;
  to.recompute += m.recompute;
  to.backward += m.backward;
  to.parameters += m.parameters;
  to.trained += m.trained;
  to.weights += m.weights;
  to.kept += m.kept;
}

bool is_number(std::string_view s) { return !s.empty() && s.find_first_not_of("0123456789") == s.npos; }

// Adds the parts of m to those in `to`, level by level. A number in a name becomes *, so that the elements of
// a list become one part. name: the name of `to`.
void fold(ModuleProfile& to, const ModuleProfile& m, const std::string& name) {
  for (const ModuleProfile& part : m.parts) {
    const std::string_view own = part.own_name();
    const std::string at = (name.empty() ? "" : name + ".") + (is_number(own) ? "*" : std::string(own));
    ModuleProfile& folded = part_of(to, at);
    add(folded, part);
    fold(folded, part, at);
  }
}

}  // namespace

std::string_view ModuleProfile::own_name() const {
  return std::string_view(name).substr(name.rfind('.') + 1);
}

ModuleProfile profile_of(Model& model, TraceOps& trace) {
  ModuleProfile root;
  for (const TraceCall& call : trace.calls()) {
    Cost ModuleProfile::*pass = call.phase == Phase::forward     ? &ModuleProfile::forward
                                : call.phase == Phase::recompute ? &ModuleProfile::recompute
                                : call.phase == Phase::backward  ? &ModuleProfile::backward
                                                                 : nullptr;
    if (!pass) continue;
    on_the_way(root, module_of(call.where), [&](ModuleProfile& m) {
      m.*pass += Cost{call.seconds, call.flops};
    });
  }
  for (const auto& [label, bytes] : trace.kept())
    on_the_way(root, module_of(label), [&, b = bytes](ModuleProfile& m) { m.kept += b; });
  EachParameter count([&](Parameter& p) {
    on_the_way(root, module_of_parameter(p.name), [&](ModuleProfile& m) {
      m.parameters += p.elements();
      m.trained += p.trainable ? p.shape.numel() : 0;
      m.weights += p.shape.numel() * size_of(p.dtype);
    });
  });
  model.visit(count);
  return root;
}

ModuleProfile with_lists_folded(const ModuleProfile& m) {
  ModuleProfile folded{.name = m.name};
  add(folded, m);
  fold(folded, m, "");
  return folded;
}

void cut(ModuleProfile& m, std::int64_t depth) {
  if (depth == 0) m.parts.clear();
  for (ModuleProfile& part : m.parts) cut(part, depth - 1);
}

}  // namespace ft
