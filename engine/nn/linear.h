// y = x W^T + b, and whatever an Adapter adds to it.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "engine/nn/weight.h"

namespace ft {

// What may be added to a Linear's output. x (rows, in), y and dy (rows, out).
class Adapter {
 public:
  virtual ~Adapter() = default;
  // Adds its part to y; returns what backward needs (taken from c.saved), perhaps nothing. `where` is the
  // Linear's name.
  virtual Tensor forward(Ctx& c, Sum& y, Tensor x) const = 0;
  // Own gradients +=; adds its part to dx. What it takes from c.scratch lives until the caller has run dx.
  virtual void backward(Ctx& c, Sum& dx, Tensor dy, Tensor x, Tensor saved) const = 0;
  virtual void visit(Visitor&) = 0;
};

struct Linear {
  std::string name;  // of the module in Hugging Face's model, such as model.layers.0.mlp.up_proj
  std::int64_t in = 0, out = 0;
  std::unique_ptr<Weight> weight;
  std::optional<Parameter> bias;     // (out)
  std::unique_ptr<Adapter> adapter;  // null: none

  // y = alpha (x W^T + adapter) + b + residual. Returns what the adapter saved.
  Tensor forward(Ctx&, Tensor y, Tensor x, Tensor residual = {}, float alpha = 1) const;
  // Own gradients +=; adds the gradient of x to dx, which the caller runs within its scratch Scope. x may be
  // empty when !reads_input().
  void backward(Ctx&, Sum& dx, Tensor dy, Tensor x, Tensor saved) const;
  // Whether backward reads x: a frozen Linear without an adapter does not.
  bool reads_input() const { return adapter || weight->grad(); }
  void visit(Visitor&);
};

Linear make_linear(std::string name, std::int64_t in, std::int64_t out, bool bias, DType dtype);

}  // namespace ft
