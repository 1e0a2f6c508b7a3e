// Values with a life of their own: functions, namespaces, generators, a loop.
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
  // Nothing: it has no such attribute.
  virtual std::optional<Value> attribute(Machine&, std::string_view) { return std::nullopt; }
  virtual bool callable() const { return false; }
  virtual Value call(Machine& m, const Arguments& arguments);
  // What a loop over it gives; null: it cannot be looped over.
  virtual Value::ListRef iterate(Machine&) { return nullptr; }
  virtual int depth() const { return 0; }  // of what is nested in it and goes with it
};

// A function of C++: a global, or a method with the value that it belongs to.
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

// What map, select and their like give: it is looped over once, and has no length.
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

// The one object that a template may change. Its machine owns it, so that cycles cost nothing.
class Namespace : public Object {
 public:
  Dict attributes;
  std::string printed(Machine& m) const override;
  std::optional<Value> attribute(Machine&, std::string_view name) override;
};

}  // namespace ft::jinja
