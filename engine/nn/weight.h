// A matrix, however it is stored. Linears multiply with dense(); quantized storage is another implementation.
#pragma once
#include "engine/nn/context.h"
#include "engine/nn/visitor.h"

namespace ft {

class Weight {
 public:
  virtual ~Weight() = default;
  virtual Tensor dense(Ctx&) const = 0;       // (out, in), valid until the caller's scratch Scope ends
  virtual Tensor grad() const { return {}; }  // (out, in) f32; empty: frozen
  virtual void visit(Visitor&) {}             // its parameters, where they are its own
};

class DenseWeight final : public Weight {
 public:
  explicit DenseWeight(Parameter p) : parameter(std::move(p)) {}
  Tensor dense(Ctx&) const override { return parameter.value; }
  Tensor grad() const override { return parameter.grad; }
  void visit(Visitor& v) override { v.parameter(parameter); }
  Parameter parameter;
};

// The embedding's table used as the head's matrix; the embedding owns it.
class TiedWeight final : public Weight {
 public:
  explicit TiedWeight(const Parameter& table) : table_(table) {}
  Tensor dense(Ctx&) const override { return table_.value; }
  Tensor grad() const override { return table_.grad; }

 private:
  const Parameter& table_;
};

}  // namespace ft
