#include "app/train/checkpoints/changes.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "app/train/checkpoints/resume_rules.h"
#include "engine/core/typography.h"
#include "engine/files/file.h"
#include "engine/settings/fields.h"

namespace ft {
namespace {

constexpr std::int64_t kLargest = 1 << 24;  // bytes of a run.json

std::string last_part(const std::string& path) { return path.substr(path.rfind('.') + 1); }

std::string shown(const Json& value) {
  return printable(value.dump(-1, ' ', false, Json::error_handler_t::replace), 120);
}

// Returns the value of a setting, or null.
const Json* find_value(const Json& tree, const std::string& path) {
  const Json* at = &tree;
  for (std::size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = path.find('.', begin);
    const auto next = at->is_object() ? at->find(path.substr(begin, end - begin)) : at->end();
    if (next == at->end()) return nullptr;
    at = &*next;
  }
  return at;
}

bool is_named(const std::vector<std::string>& names, const std::string& path) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return name == path || name == last_part(path) || path.starts_with(name + ".");
  });
}

// True for lists of modules, whose order has no meaning.
bool is_set(const std::string& path) { return path.starts_with("lora.") && path.ends_with("modules"); }

Json sorted(Json list) {
  if (list.is_array()) std::sort(list.begin(), list.end());
  return list;
}

// Returns the dtype of training in a tree of settings.
DType dtype_of(const Json& tree) {
  const auto is = [&](const char* path, const char* what) {
    const Json* value = find_value(tree, path);
    return value && *value == Json::parse(what);
  };
  if (is("training.fp16", "true")) return DType::f16;
  if (is("training.bf16", "true")) return DType::bf16;
  return is("training.bf16", "\"auto\"") && is("device", "\"cuda\"") ? DType::bf16 : DType::f32;
}

std::optional<Optim> optim_of(const Json& tree) {
  const Json* value = find_value(tree, "training.optim");
  return value && value->is_string() ? value_of<Optim>(value->get<std::string>()) : std::nullopt;
}

// True if the two runs have the same optimizer, or one has its paged form.
bool same_optimizer(const Json& a, const Json& b) {
  const auto one = optim_of(a), other = optim_of(b);
  return one && other && (*one)->unpaged() == (*other)->unpaged();
}

Json saved_settings(const Checkpoint& checkpoint) {
  const std::string file = join_path(checkpoint.path, "run.json");
  if (!path_exists(file)) return Json::object();  // the file was removed: nothing to compare
  return parse_json(read_file(file, kLargest, Exit::checkpoint), {file}, {.exit = Exit::checkpoint});
}

Json settings_now(const RunConfig& config) { return Json::parse(effective_config(config)); }

class Comparison {
 public:
  Comparison(const Checkpoint& checkpoint, const RunConfig& config, const FileHashes& now)
      : despite_(config.training.resume_despite),
        name_(str("checkpoint-", checkpoint.step)),
        was_(saved_settings(checkpoint)),
        now_(settings_now(config)),
        files_now_(now) {
    if (!checkpoint.about.has("sources")) return;
    const JsonObject sources = checkpoint.about.object("sources");
    for (const std::string& setting : sources.keys()) files_were_[setting] = sources.text(setting);
  }

  void run() {
    if (was_.empty()) return;
    for (const Setting& s : describe<RunConfig>())
      if (s.type != "section" && s.path.find("[]") == std::string::npos) compare(s);
  }
  Changes changes;
  std::vector<std::string> refused, refused_names;

 private:
  void compare(const Setting& s) {
    const Json *was = find_value(was_, s.path), *now = find_value(now_, s.path);
    if (!was) was = &s.fallback;  // an older ft had no such setting
    if (!now || is_idle(s.path)) return;
    if (s.path == "training.bf16" || s.path == "training.fp16") return compare_dtype(s.path);
    const auto of_sections = [](const Json& list) {
      return list.is_array() && !list.empty() && list[0].is_object();
    };
    if (!of_sections(*was) || !of_sections(*now)) return differ(s.path, s.path, *was, *now);
    if (was->size() != now->size()) return differ(s.path, s.path, was->size(), now->size());
    for (std::size_t i = 0; i < now->size(); ++i)
      for (const auto& [key, value] : (*now)[i].items())
        differ(str(s.path, ".", i, ".", key), str(s.path, "[].", key), (*was)[i].value(key, Json()), value);
  }

  // True for a setting that has no effect in either run, or that is only written differently.
  bool is_idle(const std::string& path) const {
    const auto both = [&](const char* setting, const Json& value) {
      const Json *was = find_value(was_, setting), *now = find_value(now_, setting);
      return was && now && *was == value && *now == value;
    };
    return (path == "training.optim" && same_optimizer(was_, now_)) ||
           (path.starts_with("lora.") && both("finetuning_type", "full")) ||
           (path.starts_with("quantization.") && both("quantization.load_in_4bit", false)) ||
           (path.starts_with("generation.") && both("evaluation.predict_with_generate", false));
  }

  void compare_dtype(const std::string& path) {
    const DType was = dtype_of(was_), now = dtype_of(now_);
    const bool half = was == DType::f16 || now == DType::f16;
    if (was != now && half == (path == "training.fp16"))
      add(path, path, str(name_of(was), said(name_of(now))));
  }

  void differ(const std::string& path, const std::string& pattern, const Json& was, const Json& now) {
    const auto then = std::as_const(files_were_).find(path), here = files_now_.find(path);
    const bool known = then != files_were_.end() && here != files_now_.end();
    const bool same = is_set(path) ? sorted(was) == sorted(now) : was == now;
    if (known ? then->second == here->second : same) return;
    if (!same)
      add(path, pattern, str(shown(was), said(shown(now))));
    else
      add(path, pattern,
          str(now.is_null() ? "its" : shown(now) + ": its", " files have changed since ", name_));
  }

  std::string said(const std::string& now) const { return str(" in ", name_, ", ", now, " now"); }

  void add(const std::string& path, const std::string& pattern, const std::string& what) {
    const ResumeRule* found = find_resume_rule(pattern);
    const ResumeRule rule = found ? *found : ResumeRule{};
    const std::string line = str(path, ": ", what);
    const auto meaning = [&] { return rule.meaning.empty() ? line : str(line, "; ", rule.meaning); };
    if (rule.effect == OnResume::noted) changes.notes.push_back(meaning());
    if (rule.effect == OnResume::warned) changes.warnings.push_back(meaning());
    if (rule.effect != OnResume::refused) return;
    if (is_named(despite_, path)) {
      changes.warnings.push_back(line + "; the run goes on, as training.resume_despite says");
    } else {
      refused.push_back(line);
      refused_names.push_back(path);
    }
  }

  const std::vector<std::string>& despite_;
  std::string name_;
  Json was_, now_;
  FileHashes files_were_;
  const FileHashes& files_now_;
};

std::string listed(const std::vector<std::string>& names) {
  return names.size() == 1 ? names[0] : Json(names).dump();
}

}  // namespace

Changes changes_since(const Checkpoint& checkpoint, const RunConfig& config, const FileHashes& now) {
  Comparison c(checkpoint, config, now);
  c.run();
  if (c.refused.empty()) return c.changes;
  std::string lines;
  for (const std::string& line : c.refused) lines += "\n  " + line;
  throw UserError(Exit::checkpoint, str(printable(checkpoint.path),
                                        ": this run would train another function or with another "
                                        "optimizer:",
                                        lines,
                                        "\n  restore the checkpoint's settings, give another "
                                        "training.output_dir to start anew, or continue nevertheless with ",
                                        shell_line({"training.resume_despite=" + listed(c.refused_names)})));
}

bool begins_other_optimizer(const Checkpoint& checkpoint, const RunConfig& config) {
  if (!is_named(config.training.resume_despite, "training.optim")) return false;
  const Json was = saved_settings(checkpoint);
  return find_value(was, "training.optim") && !same_optimizer(was, settings_now(config));
}

}  // namespace ft
