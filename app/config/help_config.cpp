// ft help config [section]: prints every setting with its default, its allowed values and its meaning, from
// the same lists that read the configuration.
#include "app/config/help_config.h"

#include <algorithm>

#include "app/config/config.h"
#include "engine/core/error.h"
#include "engine/core/suggest.h"
#include "engine/settings/fields.h"

namespace ft {
namespace {

// Breaks a text into lines of at most `width` columns, each after `indent` spaces.
std::string wrapped(const std::string& text, std::size_t width, std::size_t indent) {
  std::string out, line;
  for (std::size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = text.find(' ', begin);
    const std::string word = text.substr(begin, end == std::string::npos ? end : end - begin);
    if (!line.empty() && line.size() + 1 + word.size() > width - indent) {
      out += std::string(indent, ' ') + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return out + std::string(indent, ' ') + line + "\n";
}

std::string list(const std::vector<std::string>& words) {
  std::string out;
  for (const auto& w : words) out += (out.empty() ? "" : ", ") + w;
  return out;
}

std::string fallback(const Setting& s) { return s.rules.required ? "required" : s.fallback.dump(); }

// Returns the path up to its first point or bracket.
std::string section_of(const std::string& path) { return path.substr(0, path.find_first_of(".[")); }

}  // namespace

static std::string setting_text(const Setting& s) {
  const std::string limits = allowed(s.rules);
  std::string takes = s.rules.choices.empty() ? s.type + (limits.empty() ? "" : ", " + limits) : limits;
  if (s.rules.or_auto) takes += ", or auto";
  std::string out = s.help;
  if (!takes.empty()) out += " (" + takes + ")";
  if (s.rules.why_always)
    out += " Always so.";
  else if (s.rules.only_default)
    out += " Not available yet.";
  if (!s.rules.later.empty()) out += " Not available yet: " + list(s.rules.later) + ".";
  return out;
}

std::string config_help(const std::string& section, std::size_t width) {
  const std::vector<Setting> all = describe<RunConfig>();
  std::vector<std::string> sections;
  for (const Setting& s : all)
    if (s.path.find('.') == std::string::npos) sections.push_back(s.path);
  if (!section.empty() && std::find(sections.begin(), sections.end(), section) == sections.end()) {
    const std::string near = nearest(section, sections);
    throw UserError(Exit::config,
                    str("ft help config: there is no section ", printable(section),
                        near.empty() ? "" : "; do you mean " + near + "?", "\nthere are ", list(sections)));
  }
  std::string out;
  for (const Setting& s : all) {
    if (!section.empty() && section_of(s.path) != section) continue;
    if (s.path.starts_with("data.eval_datasets[]")) continue;  // same settings as data.datasets[]
    if (s.type == "section") {
      out += (out.empty() ? "" : "\n") + s.path + ": " + s.help + "\n";
      continue;
    }
    out += "  " + s.path + " = " + fallback(s) + "\n" + wrapped(setting_text(s), width, 6);
  }
  if (section.empty())
    out += R"(
On the command line: ft train --config run.json training.learning_rate=1e-4 lora.target_modules='["q_proj"]'
An element of a list has its number, from 0: data.datasets[0].path=more.jsonl
Relative paths in a file are relative to its folder, those on the command line to the working folder.
)";
  return out;
}

// Returns the page docs/config.md.
std::string config_page() {
  std::string out = R"(# Settings

The settings of a run's JSON file, as `ft help config` prints them. Only `model.model_name_or_path` and
`data.datasets` are required. On the command line `section.setting=value` overrides the file; the value is
read as JSON if it is JSON, else as a string. `data.datasets[0].path=more.jsonl` sets an element of a list.
Relative paths in a file are relative to its folder, those on the command line to the working folder.
)";
  const auto row = [&](const Setting& s, const std::string& name) {
    std::string text = setting_text(s);
    for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
    out += "| `" + name + "` | `" + fallback(s) + "` | " + text + " |\n";
  };
  const std::string head = "\n| setting | default | effect |\n|---|---|---|\n";
  out += "\n## At the top" + std::string("\n") + head;
  const std::vector<Setting> all = describe<RunConfig>();
  for (const Setting& s : all)
    if (s.type != "section" && s.path.find('.') == std::string::npos) row(s, s.path);
  for (const Setting& s : all) {
    if (s.path.starts_with("data.eval_datasets[]") ||
        (s.type != "section" && s.path.find('.') == s.path.npos))
      continue;
    if (s.type == "section" && s.path.find('.') == s.path.npos)
      out += "\n## " + s.path + ": " + s.help + "\n" + head;
    else if (s.type != "section")
      row(s, s.path.substr(s.path.find('.') + 1));
  }
  return out;
}

}  // namespace ft
