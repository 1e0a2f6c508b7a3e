// A matrix W (out, in) in any storage: a Linear asks it for its term of a product.
#pragma once
#include "engine/core/four_bit.h"
#include "engine/layers/visitor.h"
#include "engine/ops/products.h"
#include "engine/parallel/cut.h"
#include "engine/pass/context.h"

namespace ft {

class Weight {
 public:
  virtual ~Weight() = default;
  virtual Term times(Tensor x, Trans) const = 0;  // x W^T, or x W
  // Makes the bound values complete, before the products of a pass.
  virtual void prepare(Ctx&) const {}
  virtual bool trains() const { return false; }
  virtual Tensor grad() const { return {}; }           // (out, in) f32, or (in, out); empty: frozen
  virtual bool inputs_first() const { return false; }  // stored (in, out)
  // Adds that of y = x W^T to what is trained of it.
  virtual void add_grad(Ctx&, Tensor dy, Tensor x) const;
  virtual void visit(Visitor&) {}  // its parameters, where they are its own
  // Leaves what the rank has of the outputs (axis 0) or inputs (1) of a weight of its own. UserError (exit 2)
  // where the storage cannot be cut so.
  virtual void cut(int axis, TensorRank, const Parts&) = 0;
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
  bool trains() const override { return parameter.trainable; }
  Tensor grad() const override { return parameter.grad; }
  void visit(Visitor& v) override { v.parameter(parameter); }
  void cut(int axis, TensorRank t, const Parts& parts) override {
    ft::cut(parameter, inputs_first_ ? 1 - axis : axis, t, parts);
  }
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
  void cut(int axis, TensorRank, const Parts&) override;
  // Whether the parts of so many ranks begin with a block.
  bool divides(int axis, int size, const Parts&) const;

  // As this rank has it; of a part absmax are in f32, for those of a group in 8 bits may be other ranks'.
  FourBitForm form;
  Shape shape;
  // The form and shape of the weight that this is, or is a part of.
  FourBitForm whole_form;
  Shape whole;
  Parameter codes, absmax;                 // NAME, NAME.absmax
  Parameter nested_absmax, nested_offset;  // NAME.nested_absmax, NAME.nested_offset, where form.nested
};

// A frozen matrix in 8 bits, of answers only: it lies as its dense one does.
class Int8Weight final : public Weight {
 public:
  Int8Weight(const Parameter& dense, bool inputs_first);
  Term times(Tensor x, Trans) const override;
  bool inputs_first() const override { return inputs_first_; }
  void visit(Visitor&) override;
  void cut(int axis, TensorRank, const Parts&) override;  // UserError: it cannot be

  Shape shape;
  Parameter codes, scales;  // NAME, NAME.scales

 private:
  bool inputs_first_;
};

}  // namespace ft
