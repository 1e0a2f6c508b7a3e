// Walks a model: its units in the order of their use, and in each unit every Linear and every Parameter.
// Attaching adapters, laying out memory, loading, counting and listing are all visits.
#pragma once
#include <algorithm>
#include <functional>
#include <string_view>
#include <vector>

#include "engine/zero/parameter.h"

namespace ft {

struct Linear;
struct Moe;

class Visitor {
 public:
  virtual ~Visitor() = default;
  virtual void unit(std::string_view /*name*/) {
  }  // begins a unit, whose parameters are gathered and reduced together
  virtual void block(std::string_view name) { unit(name); }  // a unit that is a block of a stack
  virtual void linear(Linear&) {}                            // before its parameters
  virtual void experts(Moe&) {}                              // before its linears
  virtual void parameter(Parameter&) {}
};

// Visitors from functions.
class EachLinear final : public Visitor {
 public:
  explicit EachLinear(std::function<void(Linear&)> f) : f_(std::move(f)) {}
  void linear(Linear& l) override { f_(l); }

 private:
  std::function<void(Linear&)> f_;
};
class EachParameter final : public Visitor {
 public:
  explicit EachParameter(std::function<void(Parameter&)> f) : f_(std::move(f)) {}
  void parameter(Parameter& p) override { f_(p); }

 private:
  std::function<void(Parameter&)> f_;
};

// The parameters of anything that has visit().
std::vector<Parameter*> parameters_of(auto& module) {
  std::vector<Parameter*> all;
  EachParameter each([&](Parameter& p) { all.push_back(&p); });
  module.visit(each);
  return all;
}
bool any_trained(auto& module) {
  const std::vector<Parameter*> all = parameters_of(module);
  return std::any_of(all.begin(), all.end(), [](const Parameter* p) { return p->trainable; });
}

}  // namespace ft
