// Binds the arguments of a call to the function's parameter names.
#pragma once
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "data/chat/jinja/builtins/filters.h"
#include "data/chat/jinja/machine.h"

namespace ft::jinja {

class Bound {
 public:
  // Fails, naming `function`, if there are too many or unknown arguments, or one of the first `required` is
  // missing.
  Bound(Machine& m, std::string_view function, const Arguments& arguments,
        std::initializer_list<std::string_view> names, std::size_t required = 0);

  bool has(std::size_t i) const { return values_[i].has_value(); }
  const Value& operator[](std::size_t i) const;  // undefined if not given
  std::int64_t integer(std::size_t i, std::int64_t otherwise) const;
  bool flag(std::size_t i, bool otherwise) const;
  std::string text(std::size_t i, std::string_view otherwise) const;  // str() of the argument

 private:
  [[noreturn]] void fail(std::size_t i, const char* must_be) const;

  Machine& m_;
  std::string function_;
  std::vector<std::string_view> names_;
  std::vector<std::optional<Value>> values_;
};

// Adapts a filter that takes no arguments.
template <Filter filter>
Value bare(Machine& m, const Value& subject, const Arguments& arguments) {
  if (!arguments.values.empty() || !arguments.named.empty()) m.fail("the filter takes no arguments");
  return filter(m, subject, arguments);
}

}  // namespace ft::jinja
