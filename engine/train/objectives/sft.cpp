// The cross-entropy of examples, or dynamic fine-tuning (Wu et al. 2025), as TRL's SFTTrainer: each target's
// cross-entropy times its probability, which is held constant.
#include "engine/train/objectives/list.h"
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
  Supervised(SftLoss loss, double smoothing)
      : dynamic_(loss == SftLoss::dft), smoothing_(static_cast<float>(smoothing)) {}
  bool is_cross_entropy() const override { return !dynamic_; }
  std::int64_t count(const BatchShape& s) const override { return s.targets; }
  Loss stage_loss(Tensor sum, float scale) const override {
    return CrossEntropy{sum, scale, smoothing_, dynamic_};
  }
  void forward(const Pass& p, const Batch& b, Tensor loss) override {
    p.policy.model->forward(p.context, *p.policy.store, b, CrossEntropy{.sum = loss, .dynamic = dynamic_});
  }
  void forward_backward(const Pass& p, const Batch& b, Tensor loss, float scale) override {
    p.policy.model->forward_backward(p.context, *p.policy.store, b, stage_loss(loss, scale));
  }

 private:
  bool dynamic_;
  float smoothing_;
};

std::unique_ptr<Objective> make_supervised(const ObjectiveConfig& c, const ObjectiveParts& parts) {
  return std::make_unique<Supervised>(losses_of<SftLoss>(c)[0], parts.label_smoothing);
}

}  // namespace

const ObjectiveKind objectives::kSft{.name = "sft",
                                     .rate = {2e-5, 2e-4, &schedules::kCosine},
                                     .encoder_decoder = true,
                                     .settings = settings_of<LossSettings>,
                                     .losses = loss_words<SftLoss>,
                                     .make = make_supervised};

}  // namespace ft
