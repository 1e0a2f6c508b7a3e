// The cross-entropy of examples, or dynamic fine-tuning (Wu et al. 2025), as TRL's SFTTrainer: each target's
// cross-entropy times its probability, which is held constant.
#include "engine/train/objectives/list.h"
#include "engine/train/objectives/loss_by_source.h"
#include "engine/train/objectives/objective.h"
#include "engine/train/schedules/list.h"

namespace ft {
namespace {

enum class SftLoss : std::uint8_t { nll, dft };
constexpr auto words(SftLoss) {
  using enum SftLoss;
  return to_words<SftLoss>({{nll, "nll"}, {dft, "dft"}});
}

class Supervised final : public Objective {
 public:
  Supervised(SftLoss loss, const ObjectiveParts& parts)
      : dynamic_(loss == SftLoss::dft),
        smoothing_(static_cast<float>(parts.label_smoothing)),
        by_source_(parts.sources) {}
  void begin_step(const Pass&, std::int64_t) override { by_source_.begin(false); }
  std::optional<double> begin_evaluation(const Pass&) override {
    by_source_.begin(true);
    return {};
  }
  bool is_cross_entropy() const override { return !dynamic_; }
  std::int64_t count(const BatchShape& s) const override { return s.targets; }
  Loss stage_loss(Tensor sum, float scale) const override { return loss_of(sum, scale); }
  void forward(const Pass& p, const Batch& b, Tensor loss) override {
    measured(p, b, {.sum = loss, .dynamic = dynamic_},
             [&](const Loss& all) { p.policy.model->forward(p.context, *p.policy.store, b, all); });
  }
  void forward_backward(const Pass& p, const Batch& b, Tensor loss, float scale) override {
    measured(p, b, loss_of(loss, scale),
             [&](const Loss& all) { p.policy.model->forward_backward(p.context, *p.policy.store, b, all); });
  }
  std::vector<std::string> columns() const override { return by_source_.columns(); }
  std::vector<double> take_columns() override { return by_source_.take(); }
  Measures measures(const std::vector<double>& sums) const override { return by_source_.measures(sums); }

 private:
  CrossEntropy loss_of(Tensor sum, float scale) const {
    return {.sum = sum, .scale = scale, .smoothing = smoothing_, .dynamic = dynamic_};
  }

  // Runs a pass, and adds up the losses of the datasets that the log names.
  void measured(const Pass& p, const Batch& b, CrossEntropy loss, const auto& pass) {
    if (!by_source_.any()) return pass(loss);
    Scope scratch(p.context.scratch);
    const std::vector<TargetStretch> stretches = by_source_.stretches(b);
    loss.stretches = stretches;
    loss.group_sums = by_source_.zeros(p.context);
    pass(loss);
    by_source_.add(p.context, loss.group_sums, stretches);
  }

  bool dynamic_;
  float smoothing_;
  LossBySource by_source_;
};

std::unique_ptr<Objective> make_supervised(const ObjectiveConfig& c, const ObjectiveParts& parts) {
  return std::make_unique<Supervised>(losses_of<SftLoss>(c)[0], parts);
}

}  // namespace

const ObjectiveKind objectives::kSft{.name = "sft",
                                     .rate = {2e-5, 2e-4, &schedules::kCosine},
                                     .encoder_decoder = true,
                                     .settings = settings_of<LossSettings>,
                                     .losses = loss_words<SftLoss>,
                                     .make = make_supervised};

}  // namespace ft
