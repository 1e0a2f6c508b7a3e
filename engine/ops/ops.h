// Everything ft can compute, and the queue it is computed on. CPU, CUDA, Null (which only measures memory)
// and Trace (which wraps another and takes notes) implement it; nothing else in the program touches an
// element.
//
// Outputs come first; a gradient follows its function. "+=" is said where a result is added to what is there;
// all other outputs are overwritten. An empty Tensor where an output may be unwanted means: do not compute
// it. Unless said otherwise tensors are f32, bf16 or f16, all of one dtype in a call, dense or with a stride,
// and sums are taken in f32 in an order that depends on the shapes only, never on the number of threads.
// Letters: rows = tokens, C width, H heads, D head width, F feed-forward, V vocabulary, R rank.
#pragma once
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "engine/core/arena.h"
#include "engine/core/four_bit.h"
#include "engine/core/random.h"
#include "engine/core/tensor.h"
#include "engine/ops/math.h"

namespace ft {

struct Device {
  enum class Kind : std::uint8_t { cpu, cuda } kind = Kind::cpu;
  int index = 0;
  bool cudnn = false;  // a GPU's attention by NVIDIA's cuDNN, where it takes the shape
  bool operator==(const Device&) const = default;
};

enum class Trans : std::uint8_t { no, yes };

// A matrix of (rows, cols) in 4 bits; four_bit.h says how.
struct FourBitMatrix {
  FourBitForm form;
  Shape shape;
  Tensor codes;          // u8, two elements each
  Tensor absmax;         // of every block: f32, or u8 when nested
  Tensor nested_absmax;  // when nested: f32, of every kNestedBlock of absmax
  Tensor nested_offset;  // when nested: (1) f32
  explicit operator bool() const { return static_cast<bool>(codes); }
};

// op(a) (m, k) times op(b) (k, n), for operands as they lie in memory. With `four_bit` that is b, each
// element rounded once to the type of a, and the Tensor b is empty.
struct Term {
  Tensor a;
  Trans ta;
  Tensor b;
  Trans tb;
  FourBitMatrix four_bit = {};

  std::int64_t b_rows() const { return four_bit ? four_bit.shape[0] : b.rows(); }
  std::int64_t b_cols() const { return four_bit ? four_bit.shape[1] : b.cols(); }
};

struct Heads {
  std::int64_t query, key_value,
      width;  // H, KV, D; H a multiple of KV: H / KV queries share one key and value
};

// Which keys a query sees: those of its own sequence, not in its future when causal, and with window > 0 only
// the last `window` of them, itself included (transformers' sliding_window).
struct Mask {
  std::span<const std::int32_t> starts;  // (sequences + 1) first row of each sequence, on the host
  bool causal = true;
  std::int64_t window = 0;
  // Cross-attention: the same of the keys, which have their own rows; not causal, no window. Empty: the keys
  // are the queries' tokens.
  std::span<const std::int32_t> key_starts = {};

  std::span<const std::int32_t> starts_of_keys() const { return key_starts.empty() ? starts : key_starts; }
};

// How scores become probabilities: softmax(scale q k^T + bias), some of them dropped out.
struct Scores {
  float scale = 1;
  // (2 reach + 1, H) of q's dtype: row reach + clamp(key - query, -reach, reach) is added to the scores of
  // all pairs at that distance: T5's relative positions (Raffel et al. 2020). Self-attention only. Or empty.
  Tensor bias = {};
  // Training: a probability becomes 0 with chance `dropout`, else it grows by 1 / (1 - dropout). Head h,
  // query row i and key j of its sequence use number j % 4 of random.at((i H + h) << 32 | j / 4).
  float dropout = 0;
  Random random = {};

  std::int64_t reach() const { return bias ? bias.rows() / 2 : 0; }
};

// Which keys each query sees where they are not its own sequence's in the same call: row i those of rows
// [first[i], first[i] + count[i]) of k and v, with window > 0 only the last `window` of them. On the device.
struct KeyRanges {
  Tensor first, count;      // (rows) i32; count at least 1
  std::int64_t window = 0;  // 0: none
};

struct CrossEntropy {
  float scale = 1;        // of the gradient
  float smoothing = 0;    // label smoothing e: the target is (1 - e) onehot + e / V
  bool gradient = false;  // turn the logits into their gradient
};

// torch.optim.AdamW: decoupled decay, bias correction, eps outside the root. Like torch's, the scalars are
// combined in f64 (1 - beta2 of an f32 beta2 would be wrong in the fifth digit) and applied in f32.
struct AdamW {
  double lr, beta1, beta2, eps, decay;
  float grad_scale;   // clipping coefficient, applied to the gradient first
  std::int64_t step;  // 1-based
};
inline math::AdamWStep scalars_of(const AdamW& a) {
  const double n = double(a.step);
  return {.keep = float(1 - a.lr * a.decay),
          .beta1 = float(a.beta1),
          .rest1 = float(1 - a.beta1),
          .beta2 = float(a.beta2),
          .rest2 = float(1 - a.beta2),
          .rate = float(a.lr / (1 - std::pow(a.beta1, n))),
          .root = float(1 / std::sqrt(1 - std::pow(a.beta2, n))),
          .eps = float(a.eps),
          .grad_scale = a.grad_scale};
}

class Ops {
 public:
  virtual ~Ops() = default;

  // ---- the queue
  // -----------------------------------------------------------------------------------------------
  virtual Device device() const = 0;
  // Memory of this device, not cleared. Called before step 1 only. UserError(Exit::memory) when there is
  // none.
  virtual Buffer allocate(std::int64_t bytes) = 0;
  virtual void copy(Tensor y, Tensor x) = 0;            // same shape, dtype and device
  virtual void upload(Tensor y, const void* host) = 0;  // y dense
  virtual void download(void* host, Tensor x) = 0;      // x dense; returns when it is there
  virtual void synchronize() = 0;                       // all work so far is done
  // Bytes that it holds for its own use, whatever is computed.
  virtual std::int64_t workspace() const { return 0; }
  // Bytes of the device that it could hold beside what it holds now, its own use included; 0: unknown.
  virtual std::int64_t free_memory() const { return 0; }
  // FLOP/s that products of this type reach at best, measured in some tens of milliseconds; 0: unknown.
  virtual double peak_flops(DType) { return 0; }
  // Tells tracers and profilers what the following calls belong to, by its Hugging Face name.
  virtual void enter(std::string_view /*where*/) {}

  // ---- elementwise
  // ---------------------------------------------------------------------------------------------
  virtual void fill(Tensor y, float value) = 0;  // f32, bf16, f16
  virtual void add(Tensor y, Tensor x) = 0;      // y +=; x may be of another float dtype
  virtual void cast(Tensor y, Tensor x) = 0;     // between f32, bf16 and f16
  // y = x / (1 - p) where the element is kept, else 0; in place allowed. Element i uses number i % 4 of
  // random.at(i / 4).
  virtual void dropout(Tensor y, Tensor x, float p, Random random) = 0;
  virtual void gated(Activation f, Tensor y, Tensor gate, Tensor up) = 0;  // y = f(gate) * up, or f(gate)
  virtual void gated_grad(Activation f, Tensor dgate, Tensor dup, Tensor dy, Tensor gate,
                          Tensor up) = 0;  // dgate, dup may be gate, up; dup and up are empty together

  // ---- products
  // ------------------------------------------------------------------------------------------------ y (m, n)
  // = alpha * sum of the terms + c. c: empty; y itself (accumulate); another (m, n) tensor (a residual); or
  // (n), added to every row (a bias). y may be f32 while the operands are not; c has y's dtype, or a bias
  // the operands'. The sum, c included, is rounded once.
  virtual void products(Tensor y, std::span<const Term> terms, float alpha, Tensor c) = 0;
  virtual void column_sums(Tensor y, Tensor x) = 0;  // y (n) f32 += sums over the rows of x

  // ---- layers
  // -------------------------------------------------------------------------------------------------- y = x
  // * rstd * w with rstd (rows) f32 = 1 / sqrt(mean(x^2) + eps). Zhang and Sennrich 2019.
  virtual void rms_norm(Tensor y, Tensor rstd, Tensor x, Tensor w, float eps) = 0;
  virtual void rms_norm_grad(Tensor dx, Tensor dw, Tensor dy, Tensor x, Tensor w,
                             Tensor rstd) = 0;  // dx +=, dw f32 +=; either may be empty
  // Rotates the pairs (i, i + D/2) of every head, in place. cos, sin (positions, D/2) f32 hold any scaling;
  // positions (rows) i32. sign -1 is the transpose: the gradient.
  virtual void rope(Tensor x, Tensor cos, Tensor sin, Tensor positions, std::int64_t head_width,
                    float sign) = 0;
  // y (rows, H D) = softmax(scale q k^T + bias) v by head; q (rows, H D), k and v (key rows, KV D), lse (H,
  // rows) f32 for the gradient: natural logarithms of the denominators. Never holds a (T, T) matrix.
  virtual void attention(Tensor y, Tensor lse, Tensor q, Tensor k, Tensor v, Heads, const Mask&,
                         const Scores&) = 0;
  // dbias (2 reach + 1, H) f32 +=, or empty: not wanted, which saves two products in seven.
  virtual void attention_grad(Tensor dq, Tensor dk, Tensor dv, Tensor dbias, Tensor dy, Tensor y, Tensor lse,
                              Tensor q, Tensor k, Tensor v, Heads, const Mask&, const Scores&) = 0;
  // The same for few queries and many keys, those of a cache of tokens that came before: y, q (rows, H D), k
  // and v (keys, KV D). A row's result depends on nothing but its own keys, the last of which is, for a bias,
  // its own token. Generation only: there is no gradient and no dropout.
  virtual void attention_ranges(Tensor y, Tensor q, Tensor k, Tensor v, Heads, const KeyRanges&,
                                const Scores&) = 0;
  virtual void embedding(Tensor y, Tensor ids, Tensor table) = 0;  // ids (rows) i32, table (V, C)
  virtual void embedding_grad(Tensor dtable, Tensor ids,
                              Tensor dy) = 0;                      // dtable f32 +=, equal ids in row order
  virtual void gather_rows(Tensor y, Tensor x, Tensor rows) = 0;   // y[i] = x[rows[i]]; rows i32
  virtual void scatter_rows(Tensor y, Tensor x, Tensor rows) = 0;  // y[rows[i]] = x[i]; other rows stay
  // loss (rows) f32 = -log softmax(logits)[target] by row (smoothed as said); the logits may become their
  // gradient.
  virtual void cross_entropy(Tensor loss, Tensor logits, Tensor targets, const CrossEntropy&) = 0;

  // ---- optimizer: f32, dense
  // -----------------------------------------------------------------------------------
  virtual void sum(Tensor y, Tensor x) = 0;          // y (1) f64 += sum of x, f32
  virtual void sum_squares(Tensor y, Tensor x) = 0;  // y (1) f64 +=
  virtual void adamw(Tensor master, Tensor m, Tensor v, Tensor grad, const AdamW&) = 0;
  virtual void sgd(Tensor master, Tensor grad, float lr, float decay,
                   float grad_scale) = 0;  // master -= lr (grad + decay master)
};

// One product: y = alpha op(a) op(b) + c.
inline void product(Ops& ops, Tensor y, Term term, float alpha = 1, Tensor c = {}) {
  ops.products(y, {&term, 1}, alpha, c);
}

// gemm_tuning: a GPU's file of the fastest algorithms for products (engine/cuda/gemm_file.h); empty: none.
std::unique_ptr<Ops> make_ops(Device, const std::string& gemm_tuning = {});

}  // namespace ft
