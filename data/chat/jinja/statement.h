// The nodes of a template's tags; each knows how to run itself.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "data/chat/jinja/expression.h"

namespace ft::jinja {

enum class Flow : std::uint8_t { on, to_end, to_next };  // break and continue leave the loop's body

class Statement {
 public:
  explicit Statement(int line) : line_(line) {}
  virtual ~Statement() = default;
  Flow run(Machine& m) const {
    const Machine::Level level(m, line_);
    return execute(m);
  }

 protected:
  virtual Flow execute(Machine& m) const = 0;

 private:
  int line_;
};
using St = std::unique_ptr<const Statement>;
using Body = std::vector<St>;

Flow run(Machine& m, const Body& body);

// What is assigned to: a name, an attribute of a namespace, or a tuple of these.
struct Target {
  std::string name, attribute;
  std::vector<Target> parts;

  void assign(Machine& m, const Value& value) const;
};

// {% for target in items if condition recursive %} body {% else %} otherwise.
struct Loop {
  int line = 0;
  Target target;
  Ex items, condition;
  bool recursive = false;
  Body body, otherwise;

  Flow run(Machine& m, const Value& over, int depth) const;
};

struct Macro {
  std::string name;
  std::vector<std::pair<std::string, Ex>> parameters;  // with what they are if not given; null: undefined
  Body body;
  bool takes_values = false, takes_named = false, takes_caller = false;  // varargs, kwargs, caller occur
};

struct FilterCall {
  int line;
  Filter filter;
  Call arguments;
};

St text(int line, std::string text);
St print(int line, Ex value);
St branch(int line, std::vector<std::pair<Ex, Body>> cases, Body otherwise);  // if, elif, else
St loop(std::shared_ptr<const Loop> loop);
St leave(int line, Flow flow);
St assign(int line, Target target, Ex value);
St assign_block(int line, Target target, std::vector<FilterCall> filters, Body body);
St filter_block(int line, std::vector<FilterCall> filters, Body body);
St with(int line, std::vector<std::pair<Target, Ex>> variables, Body body);
St define(int line, std::shared_ptr<const Macro> macro);
// {% call(parameters) function(arguments) %}
St call_block(int line, Ex function, Call arguments, std::shared_ptr<const Macro> caller);
St generation(int line, Body body);
St fails(int line, std::string what);

}  // namespace ft::jinja
