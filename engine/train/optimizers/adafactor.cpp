// Adafactor (Shazeer, Stern, "Adafactor: adaptive learning rates with sublinear memory cost", ICML 2018),
// as transformers.optimization.Adafactor without a first moment. By default scale_parameter and relative_step
// are off, as transformers' Trainer has it: learning_rate and the schedule hold.
#include <algorithm>
#include <array>
#include <cmath>

#include "engine/ops/ops.h"
#include "engine/train/optimizers/arguments.h"
#include "engine/train/optimizers/list.h"
#include "engine/train/optimizers/optimizer.h"

namespace ft {
namespace {

struct AdafactorArguments {
  bool scale_parameter = false, relative_step = false, warmup_init = false;
  double clip_threshold = 1, decay_rate = -0.8;

  void fields(auto& f) {
    f("scale_parameter", scale_parameter, "Multiply the rate by the root mean square of the weight.");
    f("relative_step", relative_step, "The rate is min(1e-2, 1 / sqrt(step)).");
    f("warmup_init", warmup_init, "With relative_step: min(1e-6 step, 1 / sqrt(step)).");
    f("clip_threshold", clip_threshold,
      "Largest root mean square of an update; larger updates are scaled down to it.", above(0));
    f("decay_rate", decay_rate, "The decay of means is 1 - step^decay_rate.", below(0));
  }
  std::string mistake() const {
    return warmup_init && !relative_step ? "warmup_init needs relative_step=True" : "";
  }
};

// Added to squares; the least root mean square of a weight.
constexpr double kEps = 1e-30, kLeastScale = 1e-3;

class Adafactor final : public Optimizer {
 public:
  Adafactor(const AdafactorArguments& a, double decay) : arguments_(a), decay_(decay) {}
  std::span<const StateSpec> states(const Parameter& p) const override {
    return p.shape.rank >= 2 ? std::span<const StateSpec>(kFactored) : kVector;
  }
  void step(Ops&, const FlatRun&, const StepScalars&) const override {}
  bool wants_squares() const override { return arguments_.scale_parameter; }

  void step_complete(Ops& ops, const CompleteSlice& w, const StepScalars& s, Arena& scratch) const override {
    const Scope scope(scratch);
    const Tensor squares = zero(ops, scratch);
    if (w.states.size() == kVector.size())
      ops.run(op::RootUpdate{.v = w.states[0],
                             .grad = w.complete_grad,
                             .beta2 = beta2(s),
                             .eps = kEps,
                             .grad_scale = static_cast<float>(s.grad_scale)});
    else
      update_matrices(ops, w, s, scratch);
    ops.run(op::SumSquares{squares, w.complete_grad});
    const double rate = rate_of(w, s);
    ops.run(op::Descend{.master = w.master,
                        .update = w.complete_grad.elements(w.first, w.count),
                        .keep = 1 - rate * w.decay(decay_),
                        .rate = rate,
                        .squares = squares,
                        .count = static_cast<double>(w.complete_grad.numel()),
                        .threshold = arguments_.clip_threshold});
  }

 private:
  double beta2(const StepScalars& s) const {
    return 1 - std::pow(static_cast<double>(s.step), arguments_.decay_rate);
  }
  double rate_of(const CompleteSlice& w, const StepScalars& s) const {
    const auto step = static_cast<double>(s.step);
    double rate = s.rate;
    if (arguments_.relative_step)
      rate =
          w.parameter->rule.rate * std::min(arguments_.warmup_init ? 1e-6 * step : 1e-2, 1 / std::sqrt(step));
    if (!arguments_.scale_parameter) return rate;
    return rate * std::max(kLeastScale, std::sqrt(w.squares / static_cast<double>(w.complete_grad.numel())));
  }
  static Tensor zero(Ops& ops, Arena& scratch) {
    const Tensor t = scratch.take({1}, DType::f64);
    const double none = 0;
    ops.upload(t, &none);
    return t;
  }
  // The last two dimensions are a matrix's.
  void update_matrices(Ops& ops, const CompleteSlice& w, const StepScalars& s, Arena& scratch) const {
    const Shape& shape = w.parameter->shape;
    const std::int64_t rows = shape[-2], cols = shape[-1], size = rows * cols;
    const auto scale = static_cast<float>(s.grad_scale);
    for (std::int64_t i = 0; i * size < w.complete_grad.numel(); ++i) {
      const Scope scope(scratch);
      const Tensor grad(w.complete_grad.elements(i * size, size).data, DType::f32, {rows, cols});
      const Tensor row = w.states[0].elements(i * rows, rows), col = w.states[1].elements(i * cols, cols);
      ops.run(op::FactoredMeans{
          .row = row, .col = col, .grad = grad, .beta2 = beta2(s), .eps = kEps, .grad_scale = scale});
      const Tensor row_sum = zero(ops, scratch);
      ops.run(op::Sum{row_sum, row});
      ops.run(
          op::FactoredUpdate{.grad = grad, .row = row, .col = col, .row_sum = row_sum, .grad_scale = scale});
    }
  }

  static constexpr std::array<StateSpec, 2> kFactored{
      {{.name = "exp_avg_sq_row", .kept = Kept::rows, .complete_gradient = true},
       {.name = "exp_avg_sq_col", .kept = Kept::columns, .complete_gradient = true}}};
  static constexpr std::array<StateSpec, 1> kVector{
      {{.name = "exp_avg_sq", .kept = Kept::complete, .complete_gradient = true}}};
  AdafactorArguments arguments_;
  double decay_;
};

std::unique_ptr<const Optimizer> make_adafactor(const TrainingConfig& c, const SettingsText& tree) {
  return std::make_unique<Adafactor>(optim_args_of<AdafactorArguments>(c, tree), c.weight_decay);
}

}  // namespace

const OptimizerKind optimizers::kAdafactor{.name = "adafactor", .make = make_adafactor, .complete = true};

}  // namespace ft
