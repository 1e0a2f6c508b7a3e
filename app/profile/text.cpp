// Writes a profile as tables for people, with layers added up.
#include <algorithm>

#include "app/profile/step_profile.h"
#include "app/screen/format.h"
#include "app/screen/table.h"
#include "engine/core/error.h"

namespace ft {
namespace {

std::string ms(double seconds) { return seconds > 0 ? show::digits(seconds * 1e3) : "-"; }
// Returns a text such as "12.3 G".
std::string big(double n) {
  constexpr std::array<std::pair<double, const char*>, 5> kUnits{
      {{1e15, " P"}, {1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e3, " k"}}};
  for (const auto& [unit, name] : kUnits)
    if (n >= unit) return show::digits(n / unit) + name;
  return n > 0 ? show::digits(n) : "-";
}
std::string memory(std::int64_t bytes) { return bytes > 0 ? show::memory(bytes) : "-"; }
std::string share(double part) { return part > 0 ? show::percent(part, 1) : "-"; }

std::string phases_table(const StepProfile& p) {
  Table t;
  t.row({"", "ms", "of step", "MACs", "FLOP", "FLOP/s", "of peak"});
  const auto row = [&](const char* name, double seconds, double flops) {
    t.row({name, ms(seconds), share(seconds / p.seconds()), big(flops / 2), big(flops),
           big(seconds > 0 ? flops / seconds : 0), share(p.share_of_peak(flops, seconds))});
  };
  for (const Phase phase : kStepPhases) {
    const double flops = phase == Phase::forward     ? p.modules.forward.flops
                         : phase == Phase::recompute ? p.modules.recompute.flops
                         : phase == Phase::backward  ? p.modules.backward.flops
                                                     : 0;
    if (p.seconds(phase) > 0) row(name_of(phase), p.seconds(phase), flops);
  }
  row("step in all", p.seconds(), p.flops());
  row("gaps in it", p.gaps, 0);
  return t.text();
}

// Lists the modules with the most time at each depth.
std::string top_table(const StepProfile& p, const ModuleProfile& modules, std::int64_t most) {
  std::vector<std::vector<const ModuleProfile*>> depths;
  each_module(modules, [&](const ModuleProfile& m, std::int64_t depth) {
    depths.resize(std::max<std::size_t>(depths.size(), static_cast<std::size_t>(depth) + 1));
    depths[static_cast<std::size_t>(depth)].push_back(&m);
  });
  std::string text = str("most time at each depth (", most, ")\n");
  for (std::size_t depth = 1; depth < depths.size(); ++depth) {
    std::ranges::stable_sort(depths[depth], std::greater<>(), &ModuleProfile::seconds);
    text += str("  ", depth, " ");
    for (std::size_t i = 0; i < depths[depth].size() && i < static_cast<std::size_t>(most); ++i)
      text += str(i ? ", " : " ", depths[depth][i]->name, " ", ms(depths[depth][i]->seconds()), " ms (",
                  show::percent(depths[depth][i]->seconds(), p.modules.seconds()), ")");
    text += "\n";
  }
  return text;
}

std::string modules_table(const StepProfile& p, const ModuleProfile& modules) {
  Table t;
  t.row({"module", "params", "MACs fwd", "FLOP fwd", "FLOP bwd", "ms fwd", "ms bwd", "of time", "of peak",
         "weights", "kept"});
  each_module(modules, [&](const ModuleProfile& m, std::int64_t depth) {
    const double flops = m.flops() + m.recompute.flops;
    const std::string name = depth == 0 ? p.architecture : std::string(m.own_name());
    t.row({std::string(static_cast<std::size_t>(2 * depth), ' ') + name,
           m.parameters > 0 ? show::quantity(static_cast<double>(m.parameters)) : "-",
           big(m.forward.flops / 2), big(m.forward.flops), big(m.backward.flops), ms(m.forward.seconds),
           ms(m.backward.seconds + m.recompute.seconds), share(m.seconds() / p.modules.seconds()),
           share(p.share_of_peak(flops, m.seconds())), memory(m.weights), memory(m.kept)});
  });
  return t.text();
}

}  // namespace

std::string as_text(const StepProfile& p, const FlopsProfilerConfig& config) {
  ModuleProfile modules = with_lists_folded(p.modules);
  cut(modules, config.module_depth);
  std::string text = str("profile of step ", p.step, ": ", p.architecture, ", ",
                         show::quantity(static_cast<double>(p.modules.parameters)), " parameters (",
                         show::quantity(static_cast<double>(p.modules.trained)), " trained), ",
                         show::count(p.tokens), " tokens");
  if (p.ranks > 1) text += str(" on ", p.ranks, " ranks; times of rank 0");
  if (p.peak_flops > 0) text += str("; peak ", big(p.peak_flops), "FLOP/s");
  text += "\n\n" + phases_table(p) + "\n" + top_table(p, modules, config.top_modules);
  if (config.detailed) text += "\n" + modules_table(p, modules);
  return text;
}

}  // namespace ft
