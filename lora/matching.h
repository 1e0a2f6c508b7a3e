// PEFT's rules of matching modules with a name, a list of names or a regular expression.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "engine/core/error.h"

#include "lora/config.h"

namespace ft::lora {

// Returns true if `name` is `suffix` or ends with "." + suffix.
bool ends_with_module(std::string_view name, std::string_view suffix);
// Returns true if `name`, or consecutive complete parts of it, equal `module`: down_proj, model.layers.0,
// mlp.up_proj.
bool lies_in(const std::string& name, const std::string& module);
// Returns true if an entry of a list of modules is for `module`: it lies in the entry, or the entry is "re:"
// and a regular expression that matches the beginning of its name. Throws as Expression does.
bool is_listed(const std::string& module, const std::string& entry, const std::string& setting, Exit exit);

// A regular expression that must match a complete name, as in Python's re.fullmatch. PCRE2's syntax differs
// from Python's only in rare cases.
class Expression {
 public:
  // `setting` names it in errors. Throws UserError (`exit`) if the expression is invalid.
  Expression(const std::string& text, std::string setting, Exit exit);
  // Throws UserError (`exit`) if the match takes more than a million steps.
  bool matches(std::string_view name) const;

 private:
  std::string text_, setting_;
  Exit exit_;
  std::shared_ptr<const void> code_;  // PCRE2's, shared by copies: it does not change
};

// Matches target_modules or exclude_modules. A string is a regular expression for the complete name; a list
// holds suffixes.
class Matcher {
 public:
  // `setting` names it in errors. Throws UserError (`exit`) if the regular expression is invalid.
  Matcher(const Modules&, const std::string& setting, Exit exit);
  bool matches(std::string_view name);
  // Returns the entries of a list that have matched nothing so far; or the expression, if it has matched
  // nothing.
  std::vector<std::string> unused() const;
  std::size_t size() const { return names_.size(); }  // entries

 private:
  std::vector<std::string> names_;
  std::vector<bool> used_;
  std::optional<Expression> expression_;
};

// Returns the layer index in a name such as model.layers.11.mlp.up_proj or
// encoder.block.3.layer.0.SelfAttention.q: its first part that is a number; -1 if there is none.
std::int64_t layer_of(std::string_view name);

// Returns the first part of the name that is a number and for which `lists`, a regular expression, matches
// all of the name before it; -1 if there is none.
std::int64_t layer_of(std::string_view name, const Expression& lists);

// Returns the value of the first pattern that matches the end of the name, from the start of a part (PEFT:
// (.*\.)?(pattern)$).
template <class T>
std::optional<T> pattern_value(const Pattern<T>& patterns, const std::string& name,
                               const std::string& setting, Exit exit);

}  // namespace ft::lora
