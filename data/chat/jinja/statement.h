// Nodes of a template's tags; each runs itself.
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

// Target of an assignment: a name, an attribute of a namespace, or a tuple of targets.
struct Target {
  std::string name, attribute;
  std::vector<Target> parts;

  void assign(Machine& m, const Value& value) const;
};

// Parts of {% for target in items if condition recursive %} body {% else %} otherwise.
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
  std::vector<std::pair<std::string, Ex>> parameters;  // with defaults; null: undefined
  Body body;
  // The body uses varargs, kwargs, caller.
  bool takes_values = false, takes_named = false, takes_caller = false;
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
// Makes {% call(parameters) function(arguments) %}.
St call_block(int line, Ex function, Call arguments, std::shared_ptr<const Macro> caller);
St generation(int line, Body body);
St fails(int line, std::string what);

}  // namespace ft::jinja
