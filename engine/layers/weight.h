// A matrix W (out, in) in any storage: it provides a Linear's term of a product.
#pragma once
#include <utility>

#include "engine/layers/visitor.h"
#include "engine/ops/products.h"
#include "engine/parallel/cut.h"
#include "engine/pass/context.h"
#include "engine/quant/four_bit.h"

namespace ft {

class Weight {
 public:
  virtual ~Weight() = default;
  virtual Term times(Tensor x, Trans) const = 0;  // x W^T, or x W
  // Completes the bound values before the products of a pass.
  virtual void prepare(Ctx&) const {}
  virtual bool trains() const { return false; }
  virtual Tensor grad() const { return {}; }           // (out, in) f32, or (in, out); empty: frozen
  virtual bool inputs_first() const { return false; }  // stored (in, out)
  // Adds the gradient of W in y = x W^T to the trained part of W.
  virtual void add_grad(Ctx&, Tensor dy, Tensor x);
  virtual void visit(Visitor&) {}  // visits the parameters that it owns
  // Keeps only the rank's outputs (axis 0) or inputs (axis 1). Throws UserError (config) if the storage
  // cannot be cut so.
  virtual void cut(int axis, TensorRank, const Parts&) = 0;

 private:
  // Returns true if the next product overwrites the gradient, once after a store has asked for it.
  virtual bool overwrites_grad() { return false; }
};

class DenseWeight final : public Weight {
 public:
  // inputs_first: W is stored as (in, out), as in GPT-2.
  explicit DenseWeight(Parameter p, bool inputs_first = false)
      : parameter(std::move(p)), inputs_first_(inputs_first) {
    parameter.from_products = true;
  }
  Term times(Tensor x, Trans t) const override {
    if (inputs_first_) t = t == Trans::yes ? Trans::no : Trans::yes;
    Term term{x, Trans::no, parameter.value, t};
    term.fp8_rows = rows_in_fp8;
    return term;
  }
  bool inputs_first() const override { return inputs_first_; }
  bool trains() const override { return parameter.trainable; }
  Tensor grad() const override { return parameter.grad; }
  void visit(Visitor& v) override { v.parameter(parameter); }
  void cut(int axis, TensorRank t, const Parts& parts) override {
    ft::cut(parameter, inputs_first_ ? 1 - axis : axis, t, parts);
  }
  Parameter parameter;
  bool rows_in_fp8 = false;  // its products, but for its gradient, are in FP8 (Term::fp8_rows)

 private:
  bool overwrites_grad() override { return std::exchange(parameter.grad_unset, false); }
  bool inputs_first_;
};

// A frozen matrix in 4 bits. Its parameters have the names that bitsandbytes uses in files.
class FourBitWeight final : public Weight {
 public:
  FourBitWeight(const std::string& name, Shape shape, FourBitForm form);
  Term times(Tensor x, Trans) const override;
  void visit(Visitor&) override;
  void cut(int axis, TensorRank, const Parts&) override;
  // True if every rank's part of a cut among `size` ranks begins with a block.
  bool divides(int axis, int size, const Parts&) const;

  // Form and shape of the part that this rank has. absmax of a part are f32: nested absmax are encoded in
  // groups, which may reach into other ranks' parts.
  FourBitForm form;
  Shape shape;
  // Form and shape of the complete weight.
  FourBitForm whole_form;
  Shape whole;
  Parameter codes, absmax;                 // NAME, NAME.absmax
  Parameter nested_absmax, nested_offset;  // NAME.nested_absmax, NAME.nested_offset; only if form.nested
};

// A frozen matrix in FP8. Its parameters have the names that compressed-tensors, or with blocks DeepSeek and
// transformers, use in files.
class Fp8Weight final : public Weight {
 public:
  Fp8Weight(const std::string& name, Shape shape, Fp8Scheme scheme);
  Term times(Tensor x, Trans) const override;
  void visit(Visitor&) override;
  // Throws UserError (config) if a rank's part would not begin with a tile.
  void cut(int axis, TensorRank, const Parts&) override;

  Fp8Scheme scheme;
  Shape shape;  // of the part that this rank has
  Shape whole;
  Parameter codes, scales;   // NAME; NAME_scale, with blocks NAME_scale_inv
  bool rows_in_fp8 = false;  // its products quantize rows (Term::fp8_rows); not with blocks
};

// A frozen matrix in 8 bits, for generation only, laid out as its dense form.
class Int8Weight final : public Weight {
 public:
  Int8Weight(const Parameter& dense, bool inputs_first);
  Term times(Tensor x, Trans) const override;
  bool inputs_first() const override { return inputs_first_; }
  void visit(Visitor&) override;
  void cut(int axis, TensorRank, const Parts&) override;  // throws UserError (config)

  Shape shape;
  Parameter codes, scales;  // NAME, NAME.scales

 private:
  bool inputs_first_;
};

}  // namespace ft
