// A matrix W (out, in) in any storage: a Linear asks it for its term of a product.
#pragma once
#include "engine/nn/context.h"
#include "engine/nn/visitor.h"

namespace ft {

class Weight {
 public:
  virtual ~Weight() = default;
  virtual Term times(Tensor x, Trans) const = 0;       // x W^T, or x W
  virtual Tensor grad() const { return {}; }           // (out, in) f32, or (in, out); empty: frozen
  virtual bool inputs_first() const { return false; }  // stored (in, out)
  // Adds that of y = x W^T to what is trained of it.
  virtual void add_grad(Ctx&, Tensor dy, Tensor x) const;
  virtual void visit(Visitor&) {}  // its parameters, where they are its own
};

class DenseWeight final : public Weight {
 public:
  // inputs_first: W is stored as (in, out), as GPT-2's are.
  explicit DenseWeight(Parameter p, bool inputs_first = false)
      : parameter(std::move(p)), inputs_first_(inputs_first) {}
  Term times(Tensor x, Trans t) const override {
    if (inputs_first_) t = t == Trans::yes ? Trans::no : Trans::yes;
    return {x, Trans::no, parameter.value, t};
  }
  bool inputs_first() const override { return inputs_first_; }
  Tensor grad() const override { return parameter.grad; }
  void visit(Visitor& v) override { v.parameter(parameter); }
  Parameter parameter;

 private:
  bool inputs_first_;
};

// A frozen matrix in 4 bits. Its parameters carry the names that bitsandbytes' files use.
class FourBitWeight final : public Weight {
 public:
  FourBitWeight(const std::string& name, Shape shape, FourBitForm form);
  Term times(Tensor x, Trans) const override;
  void visit(Visitor&) override;

  FourBitForm form;
  Shape shape;
  Parameter codes, absmax;                 // NAME, NAME.absmax
  Parameter nested_absmax, nested_offset;  // NAME.nested_absmax, NAME.nested_offset, where form.nested
};

}  // namespace ft
