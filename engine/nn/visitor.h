// Walks a model: its units in the order of their use, and in each every Linear and every Parameter. Attaching
// adapters, laying out memory, loading, counting and listing are all visits.
#pragma once
#include <functional>
#include <string_view>

#include "engine/dist/parameter.h"

namespace ft {

struct Linear;

class Visitor {
 public:
  virtual ~Visitor() = default;
  virtual void unit(std::string_view /*name*/) {
  }                                // what follows, up to the next, is gathered and reduced at once
  virtual void linear(Linear&) {}  // before its parameters
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

}  // namespace ft
