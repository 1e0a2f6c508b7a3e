// Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon), as torch.optim.Muon: the momentum of
// a matrix is replaced by the orthogonal matrix near it, which five Newton-Schulz steps in bf16 find.
// Parameters that are no matrices within the model (embeddings, the head, vectors) have AdamW.
#include <array>
#include <cmath>

#include "engine/ops/ops.h"
#include "engine/train/optimizers/arguments.h"
#include "engine/train/optimizers/list.h"
#include "engine/train/optimizers/optimizer.h"

namespace ft {
namespace {

enum class AdjustRate : std::uint8_t { original, match_rms_adamw };
constexpr auto words(AdjustRate) {
  using enum AdjustRate;
  return to_words<AdjustRate>({{original, "original"}, {match_rms_adamw, "match_rms_adamw"}});
}

struct MuonArguments {
  double momentum = 0.95, eps = 1e-7;
  bool nesterov = true;
  std::int64_t ns_steps = 5;
  AdjustRate adjust_lr_fn = AdjustRate::original;

  void fields(auto& f) {
    f("momentum", momentum, "Decay of the mean of gradients.", at_least(0));
    f("nesterov", nesterov, "Nesterov's momentum.");
    f("ns_steps", ns_steps, "Newton-Schulz steps.", at_least(1), below(100));
    f("eps", eps, "The least norm that divides the momentum.", above(0));
    f("adjust_lr_fn", adjust_lr_fn,
      "original: the rate times sqrt(max(1, rows / columns)); match_rms_adamw: times 0.2 sqrt(max(rows, "
      "columns)).");
  }
};

bool is_hidden_matrix(const Parameter& p) {
  const auto lies_in = [&](const char* module) { return p.name.find(module) != std::string::npos; };
  return p.shape.rank == 2 && !p.embedding && !lies_in("lm_head") && !lies_in("embed_out") &&
         !lies_in("trainable_tokens");
}

// y = alpha op(a) op(b) + c.
void multiply(Ops& ops, const Tensor& y, const Term& term, double alpha = 1, const Tensor& c = {}) {
  ops.run(op::Products{.y = y, .terms = {&term, 1}, .alpha = static_cast<float>(alpha), .c = c});
}

// Takes one step on x (m, n) in bf16: a x + (b g + c g g) x with g = x x^T, or from the other side if m > n.
// As torch rounds, g, its polynomial and the result are rounded once each.
void newton_schulz(Ops& ops, const Tensor& x, const Tensor& wide, Arena& scratch) {
  constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
  const Scope scope(scratch);
  const std::int64_t m = x.rows(), n = x.cols(), k = std::min(m, n);
  const Tensor gram = scratch.take({k, k}, DType::bf16), sum = scratch.take({k, k}, DType::f32);
  if (m > n)
    multiply(ops, gram, {x, Trans::yes, x, Trans::no});
  else
    multiply(ops, gram, {x, Trans::no, x, Trans::yes});
  ops.run(op::Scale{.y = sum, .x = gram, .by = kB});
  multiply(ops, sum, {gram, Trans::no, gram, Trans::no}, kC, sum);
  ops.run(op::Cast{gram, sum});
  ops.run(op::Scale{.y = wide, .x = x, .by = kA});
  if (m > n)
    multiply(ops, wide, {x, Trans::no, gram, Trans::no}, 1, wide);
  else
    multiply(ops, wide, {gram, Trans::no, x, Trans::no}, 1, wide);
  ops.run(op::Cast{x, wide});
}

class Muon final : public Optimizer {
 public:
  Muon(const TrainingConfig& c, const MuonArguments& a, std::unique_ptr<const Optimizer> rest)
      : arguments_(a), rest_(std::move(rest)), decay_(c.weight_decay) {}
  std::span<const StateSpec> states(const Parameter& p) const override {
    return is_hidden_matrix(p) ? std::span<const StateSpec>(kStates) : rest_->states(p);
  }
  // The gradient becomes the matrix that step_complete makes orthogonal.
  void step(Ops& ops, const FlatRun& r, const StepScalars& s) const override {
    if (r.states.size() != kStates.size()) return rest_->step(ops, r, s);
    ops.run(op::MuonMomentum{.m = r.states[0],
                             .grad = r.grad,
                             .momentum = arguments_.momentum,
                             .nesterov = arguments_.nesterov,
                             .grad_scale = static_cast<float>(s.grad_scale)});
  }
  void step_complete(Ops& ops, const CompleteSlice& w, const StepScalars& s, Arena& scratch) const override {
    const Scope scope(scratch);
    const Shape& shape = w.parameter->shape;
    const std::int64_t n = shape.numel();
    const Tensor squares = scratch.take({1}, DType::f64);
    const double none = 0;
    ops.upload(squares, &none);
    ops.run(op::SumSquares{squares, w.complete_grad});
    const Tensor x = scratch.take(shape, DType::bf16), wide = scratch.take(shape, DType::f32);
    ops.run(op::Scale{.y = x, .x = w.complete_grad, .squares = squares, .least = arguments_.eps});
    for (std::int64_t i = 0; i < arguments_.ns_steps; ++i) newton_schulz(ops, x, wide, scratch);
    ops.run(op::Descend{.master = w.master,
                        .update = Tensor(x.data, x.dtype, {n}).elements(w.first, w.count),
                        .keep = 1 - s.rate * w.decay(decay_),
                        .rate = s.rate * adjustment(shape)});
  }

 private:
  double adjustment(const Shape& s) const {
    const auto rows = static_cast<double>(s[0]), cols = static_cast<double>(s[1]);
    if (arguments_.adjust_lr_fn == AdjustRate::match_rms_adamw) return 0.2 * std::sqrt(std::max(rows, cols));
    return std::sqrt(std::max(1.0, rows / cols));
  }

  static constexpr std::array<StateSpec, 1> kStates{{{.name = "momentum_buffer", .complete_gradient = true}}};
  MuonArguments arguments_;
  std::unique_ptr<const Optimizer> rest_;
  double decay_;
};

std::unique_ptr<const Optimizer> make_muon(const TrainingConfig& c, const SettingsText& tree) {
  const auto arguments = optim_args_of<MuonArguments>(c, tree);
  TrainingConfig rest = c;
  rest.optim = &optimizers::kAdamW;
  rest.optim_args.reset();
  return std::make_unique<Muon>(c, arguments, rest.optim->make(rest, tree));
}

}  // namespace

const OptimizerKind optimizers::kMuon{.name = "muon", .make = make_muon, .complete = true};

}  // namespace ft
