#define PCRE2_CODE_UNIT_WIDTH 8
#include "lora/matching.h"

#include <pcre2.h>

#include <charconv>
#include <optional>
#include <system_error>

namespace ft::lora {
namespace {

std::string message_of(int error) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(error, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

PCRE2_SPTR units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

}  // namespace

Expression::Expression(const std::string& text, std::string setting, Exit exit)
    : text_(text), setting_(std::move(setting)), exit_(exit) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(units(text_), text_.size(), 0, &error, &offset, nullptr);
  if (code == nullptr)
    throw UserError(exit_, str(setting_, ": \"", printable(text_), "\" is not a regular expression: ",
                               message_of(error), " at character ", offset + 1));
  code_ = std::shared_ptr<const void>(code, [](const void* p) {
    pcre2_code_free(const_cast<pcre2_code*>(static_cast<const pcre2_code*>(p)));
  });
}

bool Expression::matches(std::string_view name) const {
  constexpr std::uint32_t kSteps = 1'000'000;
  const auto* code = static_cast<const pcre2_code*>(code_.get());
  const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> data(
      pcre2_match_data_create(1, nullptr), &pcre2_match_data_free);
  const std::unique_ptr<pcre2_match_context, void (*)(pcre2_match_context*)> context(
      pcre2_match_context_create(nullptr), &pcre2_match_context_free);
  require(data && context, "no memory for a regular expression");
  pcre2_set_match_limit(context.get(), kSteps);
  const int found = pcre2_match(code, units(name), name.size(), 0, PCRE2_ANCHORED | PCRE2_ENDANCHORED,
                                data.get(), context.get());
  if (found == PCRE2_ERROR_NOMATCH) return false;
  if (found < 0)
    throw UserError(exit_, str(setting_, ": \"", printable(text_), "\" takes too long on ", printable(name),
                               ": ", message_of(found)));
  return true;
}

bool ends_with_module(std::string_view name, std::string_view suffix) {
  return name == suffix || (name.size() > suffix.size() && name.ends_with(suffix) &&
                            name[name.size() - suffix.size() - 1] == '.');
}

bool lies_in(const std::string& name, const std::string& module) {
  return ("." + name + ".").find("." + module + ".") != std::string::npos;
}

bool is_listed(const std::string& module, const std::string& entry, const std::string& setting, Exit exit) {
  constexpr std::string_view kExpression = "re:";
  if (!entry.starts_with(kExpression)) return lies_in(module, entry);
  return Expression(str("(?:", entry.substr(kExpression.size()), ").*"), setting, exit).matches(module);
}

Matcher::Matcher(const Modules& modules, const std::string& setting, Exit exit) {
  if (const auto* list = std::get_if<std::vector<std::string>>(&modules)) {
    names_ = *list;
  } else {
    names_ = {std::get<std::string>(modules)};
    expression_.emplace(names_[0], setting, exit);
  }
  used_.resize(names_.size());
}

bool Matcher::matches(std::string_view name) {
  if (expression_) {
    if (!expression_->matches(name)) return false;
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

namespace {

// Returns the first part of the name that is a number, for which f(text before the part's dot) is true, and
// which is not the last part. Parts before `from` do not count. -1: there is none.
template <class F>
std::int64_t first_number(std::string_view name, std::size_t from, F f) {
  for (auto dot = name.find('.', from); dot != std::string_view::npos;) {
    const auto next = name.find('.', dot + 1);
    if (next == std::string_view::npos) return -1;
    std::int64_t number = -1;
    const auto [end, error] = std::from_chars(name.data() + dot + 1, name.data() + next, number);
    if (error == std::errc{} && end == name.data() + next && number >= 0 && f(name.substr(0, dot)))
      return number;
    dot = next;
  }
  return -1;
}

}  // namespace

std::int64_t layer_of(std::string_view name) {
  const auto first = name.find('.');  // PEFT wants two parts before the number, and one after it
  return first == std::string_view::npos ? -1 : first_number(name, first + 1, [](auto) { return true; });
}

std::int64_t layer_of(std::string_view name, const Expression& lists) {
  return first_number(name, 0, [&](std::string_view before) { return lists.matches(before); });
}

template <class T>
std::optional<T> pattern_value(const Pattern<T>& patterns, const std::string& name,
                               const std::string& setting, Exit exit) {
  for (const auto& [text, value] : patterns)
    if (Expression("(.*\\.)?(" + text + ")", setting, exit).matches(name)) return value;
  return std::nullopt;
}
template std::optional<std::int64_t> pattern_value(const Pattern<std::int64_t>&, const std::string&,
                                                   const std::string&, Exit);
template std::optional<double> pattern_value(const Pattern<double>&, const std::string&, const std::string&,
                                             Exit);

}  // namespace ft::lora
