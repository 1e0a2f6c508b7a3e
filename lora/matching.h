// PEFT's rules for which modules a name, a list of names or a regular expression matches.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "engine/core/error.h"

#include "lora/config.h"

namespace ft::lora {

// Whether `name` is `suffix` or ends with "." + suffix.
bool ends_with_module(std::string_view name, std::string_view suffix);
// Whether `name` or whole parts of it, side by side, are `module`: down_proj, model.layers.0, mlp.up_proj.
bool lies_in(const std::string& name, const std::string& module);

// A regular expression that stands for a whole name, as Python's re.fullmatch reads it; PCRE2's syntax
// differs from Python's in rarities only.
class Expression {
 public:
  // `setting` names it in errors. UserError when it cannot be read.
  Expression(const std::string& text, std::string setting, Exit exit);
  // UserError when it cannot be decided in a million steps.
  bool matches(std::string_view name) const;

 private:
  std::string text_, setting_;
  Exit exit_;
  std::shared_ptr<const void> code_;  // PCRE2's, shared by copies: it does not change
};

// One of target_modules, exclude_modules. A string is a regular expression for the whole name; a list holds
// suffixes.
class Matcher {
 public:
  // `setting` names it in errors. UserError when the regular expression cannot be read.
  Matcher(const Modules&, const std::string& setting, Exit exit);
  bool matches(std::string_view name);
  // Entries of a list that have matched nothing so far; the expression itself when it has not.
  std::vector<std::string> unused() const;
  std::size_t size() const { return names_.size(); }  // entries

 private:
  std::vector<std::string> names_;
  std::vector<bool> used_;
  std::optional<Expression> expression_;
};

// The layer index in a name such as model.layers.11.mlp.up_proj or encoder.block.3.layer.0.SelfAttention.q:
// its first part that is a number; -1 where there is none.
std::int64_t layer_of(std::string_view name);

// The same after the first place where `lists`, a regular expression, is the end of the name up to there.
std::int64_t layer_of(std::string_view name, const Expression& lists);

// The value of the first pattern that matches the end of the name, from the start of a part (PEFT:
// (.*\.)?(pattern)$).
template <class T>
std::optional<T> pattern_value(const Pattern<T>& patterns, const std::string& name,
                               const std::string& setting, Exit exit);

}  // namespace ft::lora
