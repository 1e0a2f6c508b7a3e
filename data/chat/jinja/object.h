// Values with state or behavior: functions, namespaces, generators, loops.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/chat/jinja/value.h"

namespace ft::jinja {

class Machine;

struct Arguments {
  std::vector<Value> values;
  std::vector<std::pair<std::string, Value>> named;
};

class Object {
 public:
  virtual ~Object() = default;
  virtual std::string printed(Machine&) const = 0;  // <Namespace {'a': 1}>
  // Returns nullopt if there is no such attribute.
  virtual std::optional<Value> attribute(Machine&, std::string_view) { return std::nullopt; }
  virtual bool callable() const { return false; }
  virtual Value call(Machine& m, const Arguments& arguments);
  // Returns the items of a loop over the object; null: it cannot be looped over.
  virtual Value::ListRef iterate(Machine&) { return nullptr; }
  virtual int depth() const { return 0; }  // nesting of the values that it owns
};

// A C++ function: a global, or a method with its value.
class Function : public Object {
 public:
  using Body = Value (*)(Machine&, const Value& self, const Arguments&);
  Function(std::string name, Body body, Value self = {})
      : name_(std::move(name)), body_(body), self_(std::move(self)) {}
  std::string printed(Machine&) const override { return "<function " + name_ + ">"; }
  bool callable() const override { return true; }
  Value call(Machine& m, const Arguments& arguments) override { return body_(m, self_, arguments); }
  int depth() const override { return 1 + self_.depth(); }

 private:
  std::string name_;
  Body body_;
  Value self_;
};

// Result of map, select and similar filters: it can be looped over once, and has no length.
class Generator : public Object {
 public:
  explicit Generator(Value::ListRef items) : items_(std::move(items)) {}
  std::string printed(Machine&) const override { return "<generator object>"; }
  Value::ListRef iterate(Machine& m) override;
  int depth() const override { return items_ ? items_->depth : 0; }
  const std::vector<Value>& rest() const { return items_->items; }

 private:
  Value::ListRef items_;
};

// A namespace, the only object that a template may change. Its machine owns it, so that cycles do not leak.
class Namespace : public Object {
 public:
  Dict attributes;
  std::string printed(Machine& m) const override;
  std::optional<Value> attribute(Machine&, std::string_view name) override;
};

}  // namespace ft::jinja
