#include "lora/matching.h"

#include <charconv>
#include <optional>

namespace ft::lora {
namespace {

std::regex compile(const std::string& text, const std::string& setting, Exit exit) {
  try {
    return std::regex(text, std::regex::ECMAScript | std::regex::optimize);
  } catch (const std::regex_error& e) {
    throw UserError(exit, setting + ": \"" + printable(text) + "\" is not a regular expression: " + e.what());
  }
}

}  // namespace

bool ends_with_module(std::string_view name, std::string_view suffix) {
  return name == suffix || (name.size() > suffix.size() && name.ends_with(suffix) &&
                            name[name.size() - suffix.size() - 1] == '.');
}

Matcher::Matcher(const Modules& modules, const std::string& setting, Exit exit) {
  if (const auto* list = std::get_if<std::vector<std::string>>(&modules)) {
    names_ = *list;
  } else {
    names_ = {std::get<std::string>(modules)};
    expression_ = compile(names_[0], setting, exit);
  }
  used_.resize(names_.size());
}

bool Matcher::matches(std::string_view name) {
  if (expression_) {
    if (!std::regex_match(name.begin(), name.end(), *expression_)) return false;
    used_[0] = true;
    return true;
  }
  bool any = false;
  for (std::size_t i = 0; i < names_.size(); ++i)
    if (ends_with_module(name, names_[i])) any = used_[i] = true;
  return any;
}

std::vector<std::string> Matcher::unused() const {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < names_.size(); ++i)
    if (!used_[i]) out.push_back(names_[i]);
  return out;
}

std::int64_t layer_of(std::string_view name) {
  constexpr std::string_view kLayers = ".layers.";
  const auto at = name.find(kLayers);
  if (at == std::string_view::npos) return -1;
  std::int64_t layer = -1;
  std::from_chars(name.data() + at + kLayers.size(), name.data() + name.size(), layer);
  return layer;
}

template <class T>
std::optional<T> pattern_value(const Pattern<T>& patterns, const std::string& name,
                               const std::string& setting, Exit exit) {
  for (const auto& [text, value] : patterns)
    if (std::regex_match(name, compile("(.*\\.)?(" + text + ")", setting, exit))) return value;
  return std::nullopt;
}
template std::optional<std::int64_t> pattern_value(const Pattern<std::int64_t>&, const std::string&,
                                                   const std::string&, Exit);
template std::optional<double> pattern_value(const Pattern<double>&, const std::string&, const std::string&,
                                             Exit);

}  // namespace ft::lora
