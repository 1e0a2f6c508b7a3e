// The list of fields of a config struct (see rules.h) defines how it is read, with exact errors, how it is
// written, and its help. A member is a bool, integer, double, text or enum with words (words.h); an optional,
// list or map of those; an enum or any other text; a JsonText; a struct with fields; or a list of
// structs with fields.
#pragma once
#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "engine/core/chosen.h"
#include "engine/core/rules.h"
#include "engine/files/json.h"
#include "engine/files/json_lines.h"

namespace ft {

// A setting or a section, for help.
struct Setting {
  std::string path;  // training.seed; the elements of a list: data.datasets[].path
  std::string type;  // "section", "number", "list of texts", ...
  std::string help;
  Json fallback;  // the default
  Rules rules;
};

// A configuration as written, and the lines of its keys. `name`: its name in errors.
struct SettingsText {
  Json value;
  JsonLines lines;
  std::string name;
  // Origins of values that are not from the file or the command line: "ds.json:3: optimizer.params.lr: ".
  std::map<std::string, std::string, std::less<>> places{};
};
SettingsText parse_settings(const std::string& text, const std::string& name);

// Sets the value at a path ("a.b", "list.0.a" or "list[0].a") as if it were written in that line (0: on the
// command line). `shown`: the setting's name in errors.
void put_setting(SettingsText& tree, const std::string& path, Json value, int line, const std::string& shown);
// Sets "a.b=c" in a tree. c is parsed as JSON if it is valid JSON, else it is a text.
void override_setting(SettingsText& tree, const std::string& assignment);

// The enum whose words a member accepts: the member's type, its element type (optional, list), or the enum of
// a variant of words and texts.
template <class T>
struct EnumOf {
  using type = void;
};
template <HasWords E>
struct EnumOf<E> {
  using type = E;
};
template <class T>
struct EnumOf<std::optional<T>> : EnumOf<T> {};
template <class T>
struct EnumOf<std::vector<T>> : EnumOf<T> {};
template <HasWords E>
struct EnumOf<std::variant<E, std::string>> : EnumOf<E> {};

// The rules that follow from a member's type, before its declared rules.
template <class T>
Rules rules_of_type() {
  Rules rules;
  using E = typename EnumOf<T>::type;
  if constexpr (!std::is_void_v<E>) {
    for (const auto& [value, word] : words(E{}))
      (word == std::string_view(name_of(value)) ? rules.choices : rules.synonyms).emplace_back(word);
    rules.or_text = std::is_same_v<T, std::variant<E, std::string>>;
  }
  return rules;
}

// Base of visitors. fields() of a struct calls its visitor with each member and a pack of rules. This class
// turns the pack into one Rules, so that the rest of a visitor is compiled once per member type instead of
// once per setting.
template <class Visitor>
struct Members {
  template <class T, class... R>
  void operator()(const char* name, T& value, const char* help, R... rule) {
    Rules rules = rules_of_type<T>();
    (rule(rules), ...);
    static_cast<Visitor*>(this)->member(name, value, help, rules);
  }
};

// The part of `Reader` that does not depend on the struct: the lines of settings, and the mistakes found so
// far.
class Reading {
 public:
  // `known` lists the settings, for suggestions. It is called only if there is an unknown name, because
  // listing all settings takes longer than reading a file. Null: no suggestions.
  using Known = std::vector<Setting> (*)();
  Reading(const SettingsText& from, std::filesystem::path folder, Known known)
      : from_(from), folder_(std::move(folder)), known_(known) {}

  void read(const Json&, bool&, const Rules&, const std::string& path);
  void read(const Json&, std::int64_t&, const Rules&, const std::string& path);
  void read(const Json&, double&, const Rules&, const std::string& path);
  void read(const Json&, std::string&, const Rules&, const std::string& path);
  void read(const Json&, JsonText&, const Rules&, const std::string& path);

  // Makes a path that is relative to the configuration's folder relative to the working folder.
  void resolve(std::string& value, const Rules&, const std::string& path) const;
  void fail(const std::string& path, const std::string& what);
  void expected(const std::string& path, const std::string& what, const Json& got);
  void unknown(const std::string& section, const std::string& key);
  void only_default(const std::string& path, const Json& given, const Json& fallback, const Rules&);
  // Throws UserError (config) if there are mistakes, with a line for each.
  void finish() const;

 private:
  std::string place(std::string_view path) const;
  bool in_range(double v, const Rules&, const std::string& path, const Json& as_written);

  const SettingsText& from_;
  std::filesystem::path folder_;
  Known known_;
  std::vector<std::string> mistakes_;
};

struct Probe {};
template <class T>
concept Section = std::is_class_v<T> && requires {
  &T::template fields<Probe>;
};
template <class T>
struct IsList : std::false_type {};
template <class T>
struct IsList<std::vector<T>> : std::true_type {
  using Element = T;
};
template <class T>
concept MapEntry = requires(T t) {
  { t.first } -> std::convertible_to<std::string>;
  t.second;
};

// Reads the members of one struct from one JSON object.
struct Reader : Members<Reader> {
  Reading& to;
  const Json& from;
  std::string path;  // "training."; empty at the top
  std::vector<std::string> known{};

  Reader(Reading& reading, const Json& j, std::string at) : to(reading), from(j), path(std::move(at)) {}

  template <class T>
  void member(const char* name, T& value, const char* help, const Rules& rules) {
    known.emplace_back(name);
    const std::string here = path + name;
    const auto at = from.find(name);
    if (at == from.end()) {
      if (rules.required) to.fail(here, std::string("missing: ") + help);
      absent(value, rules, here);
    } else if (!rules.only_default) {
      read(*at, value, rules, here);
    } else {
      const Json fallback = write(value, rules);
      read(*at, value, rules, here);
      if (write(value, rules) != fallback) to.only_default(here, *at, fallback, rules);
    }
  }

  // Default paths, too, are relative to the configuration.
  template <class T>
  void absent(T& value, const Rules& rules, const std::string& here) {
    if constexpr (Section<T>)
      section(to, Json::object(), value, here);
    else if constexpr (std::is_same_v<T, std::string>)
      to.resolve(value, rules, here);
  }

  template <Section T>
  static void section(Reading& to, const Json& j, T& value, const std::string& path) {
    if (!j.is_object()) return to.expected(path, "a section {...}", j);
    Reader r(to, j, path.empty() ? "" : path + ".");
    value.fields(r);
    for (const auto& [key, _] : j.items())
      if (std::find(r.known.begin(), r.known.end(), key) == r.known.end()) to.unknown(r.path, key);
  }

  template <class T>
  void read(const Json& j, T& value, const Rules& rules, const std::string& here) {
    if constexpr (Section<T>)
      section(to, j, value, here);
    else
      to.read(j, value, rules, here);
  }
  template <HasWords E>
  void read(const Json& j, E& value, const Rules& rules, const std::string& here) {
    std::string word;
    to.read(j, word, rules, here);
    if (const auto given = value_of<E>(word)) value = *given;
  }
  template <HasWords E>
  void read(const Json& j, std::variant<E, std::string>& value, const Rules& rules, const std::string& here) {
    std::string text;
    to.read(j, text, rules, here);
    if (const auto word = value_of<E>(text))
      value = *word;
    else if (!text.empty())
      value = text;
  }
  template <class T>
  void read(const Json& j, std::optional<T>& value, const Rules& rules, const std::string& here) {
    const bool none = rules.or_auto ? j == "auto" : j.is_null();
    if (none) return value.reset();
    T given{};
    read(j, given, rules, here);
    value = std::move(given);
  }
  template <class T>
  void read(const Json& j, std::vector<T>& value, const Rules& rules, const std::string& here) {
    value.clear();
    if (j.is_null() && rules.or_null) return;
    if constexpr (MapEntry<T>) {
      if (!j.is_object()) return to.expected(here, "an object {...}", j);
      for (const auto& [key, v] : j.items()) {
        T entry{key, {}};
        read(v, entry.second, rules, here + "." + key);
        value.push_back(std::move(entry));
      }
    } else {
      if (!j.is_array() && !rules.or_one) return to.expected(here, "a list [...]", j);
      if (j.empty() && rules.not_empty) return to.fail(here, "the list is empty");
      const std::size_t n = j.is_array() ? j.size() : 1;
      for (std::size_t i = 0; i < n; ++i)
        read(j.is_array() ? j[i] : j, value.emplace_back(), rules,
             j.is_array() ? here + "." + std::to_string(i) : here);
    }
  }
  template <class T>
  void read(const Json& j, std::map<std::string, T>& value, const Rules& rules, const std::string& here) {
    value.clear();
    if (!j.is_object()) return to.expected(here, "an object {...}", j);
    for (const auto& [key, v] : j.items()) read(v, value[key], rules, here + "." + key);
  }
  template <class T>
  void read(const Json& j, std::variant<std::string, std::vector<T>>& value, const Rules& rules,
            const std::string& here) {
    if (j.is_string())
      read(j, value.template emplace<0>(), rules, here);
    else if (j.is_array())
      read(j, value.template emplace<1>(), rules, here);
    else
      to.expected(here, "a string or a list of strings", j);
  }

  template <class T>
  static Json write(const T& value, const Rules& rules);
};

// Writes the members of one struct to one JSON object.
struct Writer : Members<Writer> {
  Json& to;
  bool absolute_paths;

  explicit Writer(Json& j, bool absolute = true) : to(j), absolute_paths(absolute) {}

  template <class T>
  void member(const char* name, T& value, const char*, const Rules& rules) {
    to[name] = json(value, rules);
  }

  Json json(bool v, const Rules&) { return v; }
  Json json(std::int64_t v, const Rules&) { return v; }
  Json json(double v, const Rules&);
  Json json(const std::string& v, const Rules& rules);
  Json json(HasWords auto v, const Rules& rules) { return json(std::string(name_of(v)), rules); }
  Json json(const JsonText& v, const Rules&) { return v.text.empty() ? Json() : Json::parse(v.text); }
  template <Section T>
  Json json(T v, const Rules&) {
    Json j = Json::object();
    Writer w(j, absolute_paths);
    v.fields(w);
    return j;
  }
  template <class T>
  Json json(const std::optional<T>& v, const Rules& rules) {
    return v ? json(*v, rules) : rules.or_auto ? Json("auto") : Json();
  }
  template <class T>
  Json json(const std::vector<T>& v, const Rules& rules) {
    if constexpr (MapEntry<T>) {
      Json j = Json::object();
      for (const auto& [key, x] : v) j[key] = json(x, rules);
      return j;
    } else {
      Json j = Json::array();
      for (const auto& x : v) j.push_back(json(x, rules));
      return j;
    }
  }
  template <class T>
  Json json(const std::map<std::string, T>& v, const Rules& rules) {
    Json j = Json::object();
    for (const auto& [key, x] : v) j[key] = json(x, rules);
    return j;
  }
  template <class... T>
  Json json(const std::variant<T...>& v, const Rules& rules) {
    return std::visit([&](const auto& x) { return json(x, rules); }, v);
  }
};

template <class T>
Json Reader::write(const T& value, const Rules& rules) {
  Json unused;
  return Writer(unused, false).json(value, rules);
}

// Lists every setting of a struct, in order, sections before their members.
struct Describer : Members<Describer> {
  std::vector<Setting>& to;
  std::string path;

  Describer(std::vector<Setting>& settings, std::string at) : to(settings), path(std::move(at)) {}

  template <class T>
  void member(const char* name, T& value, const char* help, const Rules& rules) {
    const Setting s{path + name, type(value), help, Reader::write(value, rules), rules};
    to.push_back(s);
    if constexpr (Section<T>) {
      Describer d(to, s.path + ".");
      value.fields(d);
    } else if constexpr (IsList<T>::value) {
      if constexpr (Section<typename IsList<T>::Element>) {
        typename IsList<T>::Element element;
        Describer d(to, s.path + "[].");
        element.fields(d);
      }
    }
  }

  static std::string type(bool) { return "true or false"; }
  static std::string type(std::int64_t) { return "whole number"; }
  static std::string type(double) { return "number"; }
  static std::string type(const std::string&) { return "text"; }
  static std::string type(HasWords auto) { return "text"; }
  static std::string type(const JsonText&) { return "JSON"; }
  template <Section T>
  static std::string type(const T&) {
    return "section";
  }
  template <class T>
  static std::string type(const std::optional<T>&) {
    return type(T{});
  }
  template <class T>
  static std::string type(const std::vector<T>&) {
    if constexpr (MapEntry<T>)
      return "map";
    else
      return "list";
  }
  template <class T>
  static std::string type(const std::map<std::string, T>&) {
    return "map";
  }
  template <class... T>
  static std::string type(const std::variant<T...>&) {
    return "text or list";
  }
};

template <Section T>
std::vector<Setting> describe() {
  std::vector<Setting> all;
  Describer d(all, "");
  T defaults;
  defaults.fields(d);
  return all;
}

// Reads a struct. Relative paths, including defaults, are converted to be relative to the working folder;
// paths on the command line are so already. Throws UserError (config) if there are mistakes, and lists all.
template <Section T>
T read_settings(const SettingsText& from, const std::filesystem::path& folder) {
  T value;
  Reading reading(from, folder, describe<T>);
  Reader::section(reading, from.value, value, "");
  reading.finish();
  return value;
}

// Writes every setting, including defaults, with absolute paths.
template <Section T>
Json write_settings(const T& value) {
  Json unused;
  return Writer(unused).json(value, {});
}

// Describes the values that rules allow: "at least 1", "adamw, sgd", ...; empty if any is allowed.
std::string allowed(const Rules& rules);

}  // namespace ft
