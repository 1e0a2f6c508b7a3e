// Nodes of a template's expressions; each evaluates itself.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "data/chat/jinja/builtins/filters.h"
#include "data/chat/jinja/machine.h"

namespace ft::jinja {

class Expression {
 public:
  explicit Expression(int line) : line_(line) {}
  virtual ~Expression() = default;
  Value value(Machine& m) const {
    const Machine::Level level(m, line_);
    return evaluate(m);
  }
  int line() const { return line_; }

 protected:
  virtual Value evaluate(Machine& m) const = 0;

 private:
  int line_;
};
using Ex = std::unique_ptr<const Expression>;

struct Call {  // the arguments of a call
  std::vector<Ex> values;
  std::vector<std::pair<std::string, Ex>> named;
  Ex more_values, more_named;  // *list and **object; null: none

  Arguments evaluate(Machine& m) const;
};

Ex constant(int line, Value value);
Ex variable(int line, std::string name);
Ex list_of(int line, std::vector<Ex> items, ListKind kind);
Ex dict_of(int line, std::vector<std::pair<Ex, Ex>> items);
Ex attribute(int line, Ex of, std::string name);
Ex item(int line, Ex of, Ex at);
Ex slice(int line, Ex of, Ex begin, Ex end, Ex step);  // each of the three may be null
Ex call(int line, Ex function, Call arguments);
Ex filtered(int line, Ex subject, Filter filter, Call arguments);
Ex tested(int line, Ex subject, Test test, Call arguments, bool negated);
Ex unknown(int line, std::string what);  // fails when it is evaluated

enum class Operator : std::uint8_t {
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,
  power,
  minus,
  plus
};
Ex operation(int line, Operator op, Ex left, Ex right);    // right is null: one operand
Ex concatenation(int line, std::vector<Ex> parts);         // a ~ b ~ c
Ex all_of(int line, Ex left, Ex right);                    // and
Ex any_of(int line, Ex left, Ex right);                    // or
Ex negation(int line, Ex operand);                         // not
Ex choice(int line, Ex condition, Ex then, Ex otherwise);  // otherwise null: undefined

enum class Relation : std::uint8_t { equal, unequal, less, less_equal, greater, greater_equal, in, not_in };
Ex comparison(int line, Ex first, std::vector<std::pair<Relation, Ex>> others);  // a < b < c

// Operations that expressions and filters share.
Value attribute_of(Machine& m, const Value& of, std::string_view name);  // of.name
Value item_of(Machine& m, const Value& of, const Value& at);             // of[at]
Value calculated(Machine& m, Operator op, const Value& left, const Value& right);
Value sliced(Machine& m, const Value& of, const Value& begin, const Value& end, const Value& step);

}  // namespace ft::jinja
