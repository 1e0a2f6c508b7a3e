// y = x W^T + b, plus the adapter's part if it has an Adapter.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "engine/core/error.h"
#include "engine/layers/weight.h"
#include "engine/quant/block_codes.h"

namespace ft {

class Sum;  // sum.h

// A down-projection of an adapter: u = scale x a^T.
struct DownMatrix {
  Tensor a, grad;  // (width, in); the gradient is f32
  float scale;

  void forward(Ctx&, Tensor u, Tensor x) const;
  void backward(Ctx&, Sum& dx, Tensor du, Tensor x) const;  // du already has the factor `scale`
};

// A vector that an adapter adds, times `scale`, to every row of a Linear's output.
struct OutputBias {
  Tensor value, grad;  // (out); the gradient is f32, and empty if the vector is frozen
  float scale;
};

class DenseChange;    // dense_change.h
class Rescaling;      // rescaled.h
class InputRotation;  // rotated.h

// An addition to a Linear's output by way of a narrow tensor u: y += up(u) with u = down(x). x (rows, in), u
// (rows, width), y (rows, out). Gradients of its parameters are added to.
class Adapter {
 public:
  virtual ~Adapter() = default;
  virtual std::int64_t width() const = 0;
  virtual void down(Ctx& c, Tensor u, Tensor x) const = 0;
  virtual void up(Sum& y, Tensor u) const = 0;
  virtual void up_grad(Ctx& c, Tensor du, Tensor dy, Tensor u) const = 0;
  // Requires that du, and the memory that this takes from c.scratch, stay valid until the caller has run dx.
  virtual void down_grad(Ctx& c, Sum& dx, Tensor du, Tensor x) const = 0;
  // Returns the matrix if down is one product and nothing else: adapters that read the same x may then share
  // a product (siblings.h).
  virtual std::optional<DownMatrix> down_matrix(const Ctx& c) const = 0;
  // Returns the scaling of the sum of the Linear's and the adapter's products; null: no scaling.
  virtual const Rescaling* rescaling() const { return nullptr; }
  // False if it computes with another adapter's parameters.
  virtual bool owns_parameters() const { return true; }
  virtual void visit_down(Visitor&) = 0;
  virtual void visit_up(Visitor&) = 0;
  // Keeps only the adapter's part for the rank's part of its Linear. The matrix on the uncut side stays
  // complete, and its gradient is summed over the ranks.
  virtual void cut(Cut, TensorRank, const Parts&) { throw InternalError("cut: not of this adapter"); }
  // True if one call must see all rows of x: their numbers choose dropout's masks or the rows' adapters.
  virtual bool needs_all_rows(const Ctx& c) const { return !down_matrix(c); }
  // Returns the bias that it adds; empty: it has none. Not with rescaling().
  virtual std::optional<OutputBias> output_bias() const { return {}; }
  // Returns the rotation of the Linear's input; null: there is none.
  virtual const InputRotation* rotation() const { return nullptr; }
  // Returns the matrix that it adds to the weight; null: it adds only `up`.
  virtual const DenseChange* change() const { return nullptr; }
  // Adds to w (out, in), f32, the matrix that down and up amount to.
  virtual void merge_into(Ctx&, Tensor) const { throw InternalError("merge_into: not of this adapter"); }
};

struct Linear {
  std::string name;  // of the module in Hugging Face's model, such as model.layers.0.mlp.up_proj
  std::int64_t in = 0, out = 0;
  std::unique_ptr<Weight> weight;
  std::optional<Parameter> bias;     // (out)
  std::unique_ptr<Adapter> adapter;  // null: none
  // True if it computes in f32 in every pass: its caller gives it f32 tensors, and its adapter is f32.
  bool wide = false;
  // The format in which the weight, with the adapter merged, will be deployed: fake_quantized.h.
  std::optional<BlockFormat> fake_format;
  // The cut of its matrix among ranks. in or out is then this rank's part of `whole`, which begins at
  // `first`.
  Cut cut = Cut::none;
  std::int64_t first = 0, whole = 0;
  std::int64_t whole_out() const { return cut == Cut::columns ? whole : out; }
  void share(Cut, TensorRank, const Parts& = {});

  // y = alpha (x W^T + adapter) + b + residual. Returns the adapter's u, which backward needs. Cut into rows:
  // x is a part of the input, and y is summed over the ranks. Cut into columns: y is a part of the output,
  // and the caller's Sum adds up the ranks' parts of dx.
  Tensor forward(Ctx&, Tensor y, Tensor x, Tensor residual = {}, float alpha = 1) const;
  // Adds to the gradients of its parameters; adds the gradient of x to dx, which the caller runs within its
  // scratch Scope. x may be empty when !reads_input().
  void backward(Ctx&, Sum& dx, Tensor dy, Tensor x, Tensor u) const;
  // True if backward reads x: a frozen Linear without an adapter does not.
  bool reads_input() const { return adapter || weight->trains(); }
  // The adapter that takes part in a pass; null: none. In a pass without adapters, an adapter that only adds
  // a narrow product still takes part, with u = 0: the result then has the same bits as with a fresh adapter
  // that adds zero, also in bf16.
  const Adapter* adapter_in(const Ctx& c) const {
    const bool narrow = adapter && !adapter->rescaling() && !adapter->change() && !adapter->rotation();
    return c.adapters || narrow ? adapter.get() : nullptr;
  }
  // Computes the adapter's u for x; 0 in a pass without adapters.
  void down(Ctx&, Tensor u, Tensor x) const;
  // Returns the adapter's u for x, in c.saved, for backward; empty without an adapter.
  Tensor narrow(Ctx&, Tensor x) const;
  void visit(Visitor&);

  // Uses du, the adapter's gradient of u. `dx` gets the adapter's part, unless the weight's part has it.
  void down_grad(Ctx&, Sum& dx, Tensor du, Tensor x) const;
  // Like forward and backward, without the adapter's product with x: u is given, and the caller uses du.
  void forward_with(Ctx&, Tensor y, Tensor x, Tensor u, Tensor residual = {}, float alpha = 1) const;
  void backward_with(Ctx&, Sum& dx, Tensor du, Tensor dy, Tensor x, Tensor u) const;
  void visit_own(Visitor&);
};

// "model.layers.0.mlp.up_proj" -> "model.layers.0.mlp", in the same memory.
inline std::string_view parent_of(std::string_view name) { return name.substr(0, name.rfind('.')); }

Linear make_linear(std::string name, std::int64_t in, std::int64_t out, bool bias, DType dtype);
// Its weight is f32, in files too.
Linear make_wide_linear(std::string name, std::int64_t in, std::int64_t out);
// Like transformers' Conv1D: stores W as (in, out) and has a bias.
Linear make_inputs_first_linear(std::string name, std::int64_t in, std::int64_t out, DType dtype);

}  // namespace ft
