// The cross-entropy of examples.
#include "engine/train/objectives/list.h"
#include "engine/train/objectives/objective.h"
#include "engine/train/schedules/list.h"

namespace ft {
namespace {

class Supervised final : public Objective {
 public:
  explicit Supervised(double smoothing) : smoothing_(static_cast<float>(smoothing)) {}
  bool is_cross_entropy() const override { return true; }
  std::int64_t count(const BatchShape& s) const override { return s.targets; }
  void forward(const Pass& p, const Batch& b, Tensor loss) override {
    p.policy.model->forward(p.context, *p.policy.store, b, CrossEntropy{loss});
  }
  void forward_backward(const Pass& p, const Batch& b, Tensor loss, float scale) override {
    p.policy.model->forward_backward(p.context, *p.policy.store, b, CrossEntropy{loss, scale, smoothing_});
  }

 private:
  float smoothing_;
};

std::unique_ptr<Objective> make_supervised(const ObjectiveConfig&, const ObjectiveParts& parts) {
  return std::make_unique<Supervised>(parts.label_smoothing);
}

}  // namespace

const ObjectiveKind objectives::kSft{.name = "sft",
                                     .rate = {2e-5, 2e-4, &schedules::kCosine},
                                     .encoder_decoder = true,
                                     .make = make_supervised};

}  // namespace ft
