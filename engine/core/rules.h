// The rules that a setting's value must obey beyond its type. A config struct lists its members once:
//   void fields(auto& f) { f("lora_dropout", lora_dropout, "Dropout before A.", at_least(0), below(1)); }
// fields.h derives reading, writing, checking and help from that list. Config structs include only this
// header.
#pragma once
#include <initializer_list>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/words.h"

namespace ft {

struct Rules {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  bool low_excluded = false, high_excluded = false;
  bool required = false;        // must be given
  bool not_empty = false;       // a list or a text must not be empty
  bool whole_from_one = false;  // below 1: any fraction; from 1 on: only integers
  bool or_auto = false;         // JSON "auto" stands for an empty optional
  bool or_text = false;         // choices, or any other text
  bool or_one = false;          // one value stands for a list with that value
  bool or_null = false;         // JSON null stands for an empty list
  bool only_default = false;    // any other value is refused: it is not available yet, or why_always says why
  const char* why_always = nullptr;   // how ft always behaves, for a setting without a choice
  bool is_path = false;               // relative to the configuration's folder
  bool or_hub_id = false;             // a path, or, if no such file exists, an id such as org/name
  std::vector<std::string> choices;   // allowed values of a text, an enum or a list's elements; empty: any
  std::vector<std::string> synonyms;  // other spellings of the choices, read but never written
  std::vector<std::string> later;     // known values that are not available yet; _N stands for a number
  std::vector<std::string> aka;       // other programs' names of this setting, for suggestions
};

inline auto at_least(double v) {
  return [v](Rules& r) { r.low = v; };
}
inline auto above(double v) {
  return [v](Rules& r) { r.low = v, r.low_excluded = true; };
}
inline auto at_most(double v) {
  return [v](Rules& r) { r.high = v; };
}
inline auto below(double v) {
  return [v](Rules& r) { r.high = v, r.high_excluded = true; };
}
inline auto required() {
  return [](Rules& r) { r.required = true; };
}
inline auto not_empty() {
  return [](Rules& r) { r.not_empty = true; };
}
inline auto whole_from_one() {
  return [](Rules& r) { r.whole_from_one = true; };
}
inline auto or_auto() {
  return [](Rules& r) { r.or_auto = true; };
}
inline auto or_one() {
  return [](Rules& r) { r.or_one = true; };
}
inline auto or_null() {
  return [](Rules& r) { r.or_null = true; };
}
inline auto only_default() {
  return [](Rules& r) { r.only_default = true; };
}
// For a setting that only describes how ft always behaves. `why` says how ft does it.
inline auto always(const char* why) {
  return [why](Rules& r) { r.only_default = true, r.why_always = why; };
}
inline auto is_path() {
  return [](Rules& r) { r.is_path = true; };
}
inline auto is_path_or_hub_id() {
  return [](Rules& r) { r.is_path = r.or_hub_id = true; };
}
// The allowed texts.
inline auto one_of(std::initializer_list<std::string> values) {
  return [list = std::vector<std::string>(values)](Rules& r) { r.choices = list; };
}
// The allowed values of an enum. Without this rule a setting accepts every word of the enum.
template <Worded E>
auto one_of(std::initializer_list<E> values) {
  return [list = std::vector<E>(values)](Rules& r) {
    r.choices.clear();
    for (const E v : list) r.choices.emplace_back(name_of(v));
  };
}
inline auto later(std::initializer_list<std::string> values) {
  return [list = std::vector<std::string>(values)](Rules& r) { r.later = list; };
}
inline auto aka(std::initializer_list<std::string> names) {
  return [list = std::vector<std::string>(names)](Rules& r) { r.aka = list; };
}

// A setting that may be any JSON, kept as text. Empty: not given.
struct JsonText {
  std::string text;
  bool operator==(const JsonText&) const = default;
};

}  // namespace ft
