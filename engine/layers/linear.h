// y = x W^T + b, and whatever an Adapter adds to it.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "engine/core/error.h"
#include "engine/layers/weight.h"

namespace ft {

class Sum;  // sum.h

// A matrix that something narrow is made with: u = scale x a^T.
struct DownMatrix {
  Tensor a, grad;  // (width, in); its gradient, f32
  float scale;

  void forward(Ctx&, Tensor u, Tensor x) const;
  void backward(Ctx&, Sum& dx, Tensor du, Tensor x) const;  // du: times `scale` already
};

class Rescaling;  // rescaled.h

// What may be added to a Linear's output, by way of something narrow: y += up(u) with u = down(x). x (rows,
// in), u (rows, width), y (rows, out). Gradients of its own are added to.
class Adapter {
 public:
  virtual ~Adapter() = default;
  virtual std::int64_t width() const = 0;
  virtual void down(Ctx& c, Tensor u, Tensor x) const = 0;
  virtual void up(Sum& y, Tensor u) const = 0;
  virtual void up_grad(Ctx& c, Tensor du, Tensor dy, Tensor u) const = 0;
  // du, and what this takes from c.scratch, are to live until the caller has run dx.
  virtual void down_grad(Ctx& c, Sum& dx, Tensor du, Tensor x) const = 0;
  // When down is a product and nothing else: adapters that read the same x may then share it (siblings.h).
  virtual std::optional<DownMatrix> down_matrix(const Ctx& c) const = 0;
  // What it does to the sum of the Linear's own product and its; null: nothing.
  virtual const Rescaling* rescaling() const { return nullptr; }
  // False: it computes with another adapter's.
  virtual bool owns_parameters() const { return true; }
  virtual void visit_down(Visitor&) = 0;
  virtual void visit_up(Visitor&) = 0;
  // Leaves what belongs to the rank's part of its Linear: the other matrix stays whole, its gradient is a
  // sum.
  virtual void cut(Cut, TensorRank, const Parts&) { throw InternalError("cut: not of this adapter"); }
};

struct Linear {
  std::string name;  // of the module in Hugging Face's model, such as model.layers.0.mlp.up_proj
  std::int64_t in = 0, out = 0;
  std::unique_ptr<Weight> weight;
  std::optional<Parameter> bias;     // (out)
  std::unique_ptr<Adapter> adapter;  // null: none
  // How ranks share it out. in or out is then this rank's part of `whole`, which begins at `first`.
  Cut cut = Cut::none;
  std::int64_t first = 0, whole = 0;
  std::int64_t whole_out() const { return cut == Cut::columns ? whole : out; }
  void share(Cut, TensorRank, const Parts& = {});

  // y = alpha (x W^T + adapter) + b + residual. Returns the adapter's u, which backward needs. Cut into rows,
  // y is added up over the ranks and x a part of the input; into columns, y is a part of the output and dx,
  // whose parts the ranks have, is added up by the caller's Sum.
  Tensor forward(Ctx&, Tensor y, Tensor x, Tensor residual = {}, float alpha = 1) const;
  // Own gradients +=; adds the gradient of x to dx, which the caller runs within its scratch Scope. x may be
  // empty when !reads_input().
  void backward(Ctx&, Sum& dx, Tensor dy, Tensor x, Tensor u) const;
  // Whether backward reads x: a frozen Linear without an adapter does not.
  bool reads_input() const { return adapter || weight->trains(); }
  // The adapter that takes part in a pass; null: none. In a pass without adapters those that only add
  // something take part with u = 0: its bits are then those of adapters that add nothing yet, also in bf16.
  const Adapter* adapter_in(const Ctx& c) const {
    return c.adapters || (adapter && !adapter->rescaling()) ? adapter.get() : nullptr;
  }
  // u of the adapter, for x; 0 in a pass without adapters.
  void down(Ctx&, Tensor u, Tensor x) const;
  // What its adapter makes of x, for backward; empty without one.
  Tensor narrow(Ctx&, Tensor x) const;
  void visit(Visitor&);

  // The same without the adapter's own computation on x: u is given, and du is left for the caller.
  void forward_with(Ctx&, Tensor y, Tensor x, Tensor u, Tensor residual = {}, float alpha = 1) const;
  void backward_with(Ctx&, Sum& dx, Tensor du, Tensor dy, Tensor x, Tensor u) const;
  void visit_own(Visitor&);
};

// "model.layers.0.mlp.up_proj" -> "model.layers.0.mlp", in the same memory.
inline std::string_view parent_of(std::string_view name) { return name.substr(0, name.rfind('.')); }

Linear make_linear(std::string name, std::int64_t in, std::int64_t out, bool bias, DType dtype);
// transformers' Conv1D: W is stored as (in, out); with a bias.
Linear make_inputs_first_linear(std::string name, std::int64_t in, std::int64_t out, DType dtype);

}  // namespace ft
