#include "engine/settings/fields.h"

#include <cmath>
#include <sstream>

#include "engine/core/suggest.h"
#include "engine/files/file.h"
#include "engine/files/hub_cache.h"

namespace ft {
namespace {

constexpr const char* kCommandLine = "command line: ";

// Returns a value's text for an error message.
std::string shown(const Json& j) {
  if (j.is_object()) return "an object {...}";
  if (j.is_array()) return "a list [...]";
  return printable(j.dump(-1, ' ', false, Json::error_handler_t::replace), 60);
}

std::string plain(double v) {
  std::ostringstream out;
  out.precision(15);
  out << v;
  return out.str();
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const auto& w : words) out += (out.empty() ? "" : ", ") + w;
  return out;
}

// Compares a word with a pattern: "pissa_niter_N" stands for pissa_niter_ and a number.
bool matches(const std::string& pattern, const std::string& text) {
  if (pattern == text) return true;
  if (!pattern.ends_with("_N")) return false;
  const std::size_t n = pattern.size() - 1;
  return text.size() > n && text.compare(0, n, pattern, 0, n) == 0 &&
         text.find_first_not_of("0123456789", n) == std::string::npos;
}

bool among(const std::vector<std::string>& patterns, const std::string& text) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const auto& p) { return matches(p, text); });
}

bool is_word(const std::string& text, const Rules& rules) {
  return among(rules.choices, text) || among(rules.synonyms, text);
}

// Turns Python's True and False into true and false if these are among the choices.
std::string without_python(const std::string& text, const Rules& rules) {
  if (text == "True" && among(rules.choices, "true")) return "true";
  if (text == "False" && among(rules.choices, "false")) return "false";
  return text;
}

// Returns the words that messages list, including "auto" for an optional.
std::vector<std::string> words_of(const Rules& rules) {
  std::vector<std::string> all = rules.choices;
  if (rules.or_auto) all.emplace_back("auto");
  return all;
}

// Removes "." and ".." from a path, unless a symbolic link gives those another meaning.
std::filesystem::path tidy(const std::filesystem::path& path) {
  std::error_code error;
  const auto normal = path.lexically_normal();
  const auto real = [&](const auto& p) { return weakly_canonical(absolute(p), error); };
  const bool same = real(path) == real(normal);
  return same && !error ? normal : path;
}

std::string last_part(const std::string& path) { return path.substr(path.rfind('.') + 1); }
std::string section_of(const std::string& path) { return path.substr(0, path.rfind('.') + 1); }

// data.datasets.0. -> data.datasets[].
std::string indexes_left_out(const std::string& section) {
  std::string out;
  for (std::size_t begin = 0, end; begin < section.size(); begin = end + 1) {
    end = std::min(section.find('.', begin), section.size());
    const std::string part = section.substr(begin, end - begin);
    if (part.find_first_not_of("0123456789") == part.npos && !out.empty())
      out.replace(out.size() - 1, 1, "[].");
    else
      out += part + ".";
  }
  return out;
}

// data.datasets[0].path -> data.datasets.0.path
std::string dotted(std::string path) {
  for (std::size_t open; (open = path.find('[')) != path.npos;) {
    const std::size_t close = path.find(']', open);
    if (open == 0 || close == path.npos || close == open + 1) break;
    path.erase(close, 1);
    path[open] = '.';
  }
  return path;
}

// Returns the setting for "do you mean ...?", given an unknown key of a section ("training."): a setting that
// other programs call so, a setting of that name, or a likely typing error. Prefers the same section to
// others.
std::string meant(const std::vector<Setting>& known, const std::string& section, const std::string& key) {
  std::vector<std::string> here, everywhere;
  for (const bool same_section : {true, false}) {
    for (const Setting& s : known) {
      if ((section_of(s.path) == section) != same_section) continue;
      const std::string name = last_part(s.path);
      if (name == key || among(s.rules.aka, key)) return same_section ? name : s.path;
      (same_section ? here : everywhere).push_back(name);
    }
  }
  if (std::string name = nearest(key, here); !name.empty()) return name;
  const std::string name = nearest(key, everywhere);
  for (const Setting& s : known)
    if (!name.empty() && last_part(s.path) == name) return s.path;
  return "";
}

}  // namespace

SettingsText parse_settings(const std::string& text, const std::string& name) {
  return {parse_json(text, {name}, {.exit = Exit::config}), json_lines(text), printable(name)};
}

void put_setting(SettingsText& tree, const std::string& written, Json value, int line,
                 const std::string& shown) {
  const std::string path = dotted(written);
  Json* at = &tree.value;
  for (std::size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = path.find('.', begin);
    const std::string key = path.substr(begin, end == std::string::npos ? end : end - begin);
    if (at->is_array()) {
      const bool index = !key.empty() && key.size() < 9 && key.find_first_not_of("0123456789") == key.npos;
      if (!index || std::stoul(key) >= at->size())
        throw UserError(Exit::config, str(printable(shown), ": the list has no element ", printable(key),
                                          "; it has ", at->size(), ", counted from 0"));
      at = &(*at)[std::stoul(key)];
    } else {
      if (!at->is_object() && !at->is_null())
        throw UserError(Exit::config,
                        str(printable(shown), ": ", printable(path.substr(0, begin ? begin - 1 : 0)),
                            " is not a section"));
      at = &(*at)[key];
    }
  }
  *at = std::move(value);
  std::erase_if(tree.lines, [&](const auto& place) { return place.first.starts_with(path + "."); });
  tree.lines[path] = line;
}

void override_setting(SettingsText& tree, const std::string& assignment) {
  const auto equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0)
    throw UserError(Exit::config,
                    str(printable(assignment), ": an override is written section.setting=value"));
  const std::string path = assignment.substr(0, equals), text = assignment.substr(equals + 1);
  Json value;
  try {
    value = parse_json(text, {path});
  } catch (const UserError&) {
    value = text;
  }
  put_setting(tree, path, std::move(value), 0, assignment);
}

// Returns the place where a setting was written: the line of the longest prefix of its path that has a line.
// A section without a line gets the line of its first setting.
std::string Reading::place(std::string_view path) const {
  for (std::string_view at = path;; at = at.substr(0, at.rfind('.'))) {
    if (const auto from = from_.places.find(at); from != from_.places.end()) return from->second;
    if (at.find('.') == at.npos) break;
  }
  const auto said = [&](int line) { return line == 0 ? kCommandLine : str(from_.name, ":", line, ": "); };
  const std::string inside = str(path, ".");
  const auto first = from_.lines.lower_bound(inside);
  if (!from_.lines.contains(path) && first != from_.lines.end() && first->first.starts_with(inside))
    return said(first->second);
  for (;; path = path.substr(0, path.rfind('.'))) {
    if (const auto at = from_.lines.find(path); at != from_.lines.end()) return said(at->second);
    if (path.find('.') == path.npos) return from_.name + ": ";
  }
}

void Reading::fail(const std::string& path, const std::string& what) {
  mistakes_.push_back(place(path) + (path.empty() ? "" : printable(path) + ": ") + what);
}

void Reading::expected(const std::string& path, const std::string& what, const Json& got) {
  fail(path, str("expected ", what, ", not ", shown(got)));
}

void Reading::unknown(const std::string& section, const std::string& key) {
  const std::string pattern = indexes_left_out(section);
  const std::string name = known_ ? meant(known_(), pattern, key) : "";
  fail(section + key, str("no such setting", name.empty() ? "" : "; do you mean " + name + "?"));
}

void Reading::only_default(const std::string& path, const Json& given, const Json& fallback,
                           const Rules& rules) {
  if (rules.why_always)
    return fail(path, str("cannot be ", shown(given), ": ", rules.why_always, "; leave it out"));
  fail(path, str(shown(given), " is not available yet; available: ", shown(fallback)));
}

void Reading::finish() const {
  if (mistakes_.empty()) return;
  constexpr std::size_t kMost = 10;
  std::string all;
  for (std::size_t i = 0; i < std::min(mistakes_.size(), kMost); ++i) all += (i ? "\n" : "") + mistakes_[i];
  if (mistakes_.size() > kMost) all += str("\nand ", mistakes_.size() - kMost, " more");
  throw UserError(Exit::config, all);
}

void Reading::read(const Json& j, bool& value, const Rules& rules, const std::string& path) {
  if (j.is_string() && among(rules.later, j.get<std::string>()))
    return fail(path,
                shown(j) + " is not available yet; available: true, false" + (rules.or_auto ? ", auto" : ""));
  if (j == "True" || j == "False") {  // as Python writes them
    value = j == "True";
    return;
  }
  if (!j.is_boolean()) return expected(path, rules.or_auto ? "true, false or auto" : "true or false", j);
  value = j.get<bool>();
}

bool Reading::in_range(double v, const Rules& r, const std::string& path, const Json& as_written) {
  const bool whole = v == std::floor(v);
  const bool ok = std::isfinite(v) && (r.low_excluded ? v > r.low : v >= r.low) &&
                  (r.high_excluded ? v < r.high : v <= r.high) && (!r.whole_from_one || v < 1 || whole);
  if (!ok) fail(path, str(shown(as_written), " is out of range: it has to be ", allowed(r)));
  return ok;
}

void Reading::read(const Json& j, std::int64_t& value, const Rules& rules, const std::string& path) {
  if (!j.is_number()) return expected(path, "a whole number", j);
  const double v = j.get<double>();
  if (v != std::floor(v)) return expected(path, "a whole number", j);
  if (std::abs(v) > 9e15) return fail(path, shown(j) + " is too large");
  if (in_range(v, rules, path, j))
    value = j.is_number_float() ? static_cast<std::int64_t>(v) : j.get<std::int64_t>();
}

void Reading::read(const Json& j, double& value, const Rules& rules, const std::string& path) {
  if (!j.is_number()) return expected(path, "a number", j);
  if (const double v = j.get<double>(); in_range(v, rules, path, j)) value = v;
}

void Reading::resolve(std::string& value, const Rules& rules, const std::string& path) const {
  if (!rules.is_path || value.empty() || is_word(value, rules)) return;
  value = home_expanded(value);
  if (value[0] == '/') return;
  if (place(path) == kCommandLine || from_.places.contains(path)) return;
  const std::string here = tidy(folder_ / value).string();
  const bool id = rules.or_hub_id && is_hub_id(value) && !path_exists(here) && !path_exists(value);
  if (!id) value = here;
}

void Reading::read(const Json& j, std::string& value, const Rules& rules, const std::string& path) {
  std::string text;
  if (j.is_boolean() && among(rules.choices, j.dump()))
    text = j.dump();
  else if (j.is_string())
    text = without_python(j.get<std::string>(), rules);
  else
    return expected(path, rules.choices.empty() ? "a string" : allowed(rules), j);
  if (among(rules.later, text))
    return fail(path, str(printable(text), " is not available yet; available: ", joined(words_of(rules))));
  if (!rules.choices.empty() && !rules.or_text && !is_word(text, rules)) {
    std::vector<std::string> known = words_of(rules);
    known.insert(known.end(), rules.synonyms.begin(), rules.synonyms.end());
    const std::string near = nearest(text, known);
    return fail(path, str("there is no \"", printable(text, 60), "\"",
                          near.empty() ? "" : "; do you mean " + near + "?",
                          near.empty() ? "; there are " : " There are ", joined(words_of(rules))));
  }
  if (text.empty() && rules.not_empty) return fail(path, "the text is empty");
  if (rules.is_path && text.find('\0') != text.npos) return fail(path, "a path cannot hold a zero byte");
  resolve(text, rules, path);
  value = text;
}

void Reading::read(const Json& j, JsonText& value, const Rules&, const std::string&) {
  value.text = j.is_null() ? "" : j.dump();
}

Json Writer::json(double v, const Rules&) {
  if (v == std::floor(v) && std::abs(v) < 9e15) return static_cast<std::int64_t>(v);
  return v;
}

Json Writer::json(const std::string& v, const Rules& rules) {
  if ((v == "true" || v == "false") && among(rules.choices, v)) return v == "true";
  const bool id = rules.or_hub_id && is_hub_id(v) && !path_exists(v);
  if (absolute_paths && rules.is_path && !v.empty() && !is_word(v, rules) && !id)
    return tidy(std::filesystem::absolute(v)).string();
  return v;
}

std::string allowed(const Rules& r) {
  if (!r.choices.empty()) return joined(r.choices) + (!r.or_text ? "" : r.is_path ? ", a path" : ", a text");
  std::string out;
  if (std::isfinite(r.low)) out += (r.low_excluded ? "above " : "at least ") + plain(r.low);
  if (std::isfinite(r.high))
    out +=
        (out.empty() ? "" : " and ") + std::string(r.high_excluded ? "below " : "at most ") + plain(r.high);
  if (r.whole_from_one) out += (out.empty() ? "" : ", and ") + std::string("a whole number from 1 on");
  return out;
}

}  // namespace ft
