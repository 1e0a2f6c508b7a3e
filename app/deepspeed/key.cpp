#include "app/deepspeed/key.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/core/suggest.h"

namespace ft::deepspeed {
namespace {

// Compares two dotted names part by part; * in the pattern matches any part.
bool matches(std::string_view pattern, std::string_view name) {
  while (true) {
    const std::size_t p = pattern.find('.'), n = name.find('.');
    if (pattern.substr(0, p) != "*" && pattern.substr(0, p) != name.substr(0, n)) return false;
    if (p == pattern.npos || n == name.npos) return p == pattern.npos && n == name.npos;
    pattern.remove_prefix(p + 1);
    name.remove_prefix(n + 1);
  }
}

std::size_t parts(std::string_view name) {
  return 1 + static_cast<std::size_t>(std::count(name.begin(), name.end(), '.'));
}

// Returns the first n parts of a dotted name.
std::string_view beginning(std::string_view name, std::size_t n) {
  std::size_t end = 0;
  for (std::size_t i = 0; i < n && end != name.npos; ++i) end = name.find('.', end + (i > 0 ? 1 : 0));
  return name.substr(0, end);
}

std::string number_text(double v) {
  return Json(v == std::floor(v) && std::abs(v) < 9e15 ? Json(static_cast<std::int64_t>(v)) : Json(v)).dump();
}

std::string range(const Value& v) {
  const bool open = v.high >= 9e15;
  const std::string low = str(v.above_low ? "above " : "at least ", number_text(v.low));
  return open ? low : str(low, " and at most ", number_text(v.high));
}

Json checked_number(const Value& value, const Json& given, std::string& mistake) {
  const bool whole = value.kind == Kind::whole;
  const std::string kind = whole ? "a whole number" : "a number";
  if (!given.is_number()) return mistake = str("has to be ", kind, ", not ", json_excerpt(given)), given;
  const auto v = given.get<double>();
  if (whole && v != std::floor(v)) {
    mistake = str("has to be a whole number, not ", json_excerpt(given));
  } else if (!(value.above_low ? v > value.low : v >= value.low) || !(v <= value.high)) {
    mistake = str("is ", json_excerpt(given), "; it has to be ", range(value));
  } else if (whole) {
    return given.is_number_float() ? Json(static_cast<std::int64_t>(v)) : given;
  }
  return given;
}

}  // namespace

std::vector<std::string> split(std::string_view words) {
  std::vector<std::string> all;
  for (std::size_t begin = 0; begin < words.size();) {
    const std::size_t comma = std::min(words.find(", ", begin), words.size());
    all.emplace_back(words.substr(begin, comma - begin));
    begin = comma + 2;
  }
  return all;
}

const std::vector<const Key*>& all_keys() {
  static const std::vector<const Key*> all = [] {
    std::vector<const Key*> keys;
    for (const auto table : {training_keys(), zero_keys(), data_keys(), other_keys()})
      for (const Key& key : table) keys.push_back(&key);
    return keys;
  }();
  return all;
}

const Key* find_key(const std::string& name) {
  static const std::map<std::string, const Key*, std::less<>> by_name = [] {
    std::map<std::string, const Key*, std::less<>> keys;
    for (const Key* key : all_keys()) keys.emplace(key->name, key);
    return keys;
  }();
  if (name.find('*') == name.npos)
    if (const auto at = by_name.find(name); at != by_name.end()) return at->second;
  for (const Key* key : all_keys())
    if (std::strchr(key->name, '*') && matches(key->name, name)) return key;
  return nullptr;
}

std::string parent_of(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  return dot == name.npos ? "" : name.substr(0, dot);
}

std::string last_of(const std::string& name) { return name.substr(name.rfind('.') + 1); }

std::string new_name(const std::string& name) {
  const Key* key = find_key(name);
  if (!key || key->fate != Fate::renamed) return name;
  const std::string to = key->to;
  return to.ends_with("*") ? to.substr(0, to.size() - 1) + last_of(name) : to;
}

const Key* find_block_off(const std::string& name) {
  for (const Key* key : all_keys())
    if (key->fate == Fate::block_off && matches(key->name, beginning(name, parts(key->name)))) return key;
  return nullptr;
}

bool is_block(const std::string& name) {
  for (const Key* key : all_keys())
    if (parts(key->name) > parts(name) && matches(beginning(key->name, parts(name)), name)) return true;
  return false;
}

std::vector<std::string> names_in(const std::string& block) {
  std::set<std::string> names;
  const std::size_t depth = block.empty() ? 0 : parts(block);
  for (const Key* key : all_keys()) {
    const std::string_view name = key->name;
    if (parts(name) <= depth || (depth > 0 && !matches(beginning(name, depth), block))) continue;
    const std::string_view up_to = beginning(name, depth + 1);
    const std::string_view last = up_to.substr(up_to.rfind('.') + 1);
    if (last != "*") names.emplace(last);
  }
  return {names.begin(), names.end()};
}

Json checked(const Value& value, const Json& given, std::string& mistake) {
  switch (value.kind) {
    case Kind::any:
      return given;
    case Kind::whole:
    case Kind::number:
      return checked_number(value, given, mistake);
    case Kind::flag:
      if (!given.is_boolean()) mistake = str("has to be true or false, not ", json_excerpt(given));
      return given;
    case Kind::list:
      if (!given.is_array()) mistake = str("has to be a list [...], not ", json_excerpt(given));
      return given;
    case Kind::numbers2: {
      if (!given.is_array() || given.size() != 2)
        return mistake = str("has to be two numbers [a, b], not ", json_excerpt(given)), given;
      for (const Json& one : given)
        checked_number({.kind = Kind::number, .low = value.low, .high = value.high}, one, mistake);
      return given;
    }
    case Kind::text:
      break;
  }
  const std::vector<std::string> words = split(value.words);
  if (!given.is_string()) {
    mistake = str("has to be a text, not ", json_excerpt(given));
  } else if (const std::string word = given;
             !words.empty() && std::find(words.begin(), words.end(), word) == words.end()) {
    const std::string near = nearest(word, words);
    mistake = str("cannot be ", printable(word, 60),
                  near.empty() ? "; there are " : str("; do you mean ", near, "? There are "), value.words);
  }
  return given;
}

}  // namespace ft::deepspeed
