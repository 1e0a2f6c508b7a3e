// Distillation: a student learns a teacher's distribution at every target, as in TRL's GKDTrainer (the
// generalized Jensen-Shannon divergence), or with kd, which mixes the forward KL with the cross-entropy
// (Hinton et al. 2015).
#include <algorithm>

#include "engine/ops/ops.h"
#include "engine/train/objectives/objective.h"
#include "engine/train/objectives/teacher_file.h"

namespace ft {
namespace {

class Distill final : public Objective {
 public:
  Distill(const ObjectiveConfig& c, std::shared_ptr<const TeacherFile> taught) : taught_(std::move(taught)) {
    const bool kd = !c.loss_type.empty() && c.loss_type[0] == LossType::kd;
    const double t = c.temperature.value_or(1), alpha = c.alpha.value_or(0.5);
    with_.temperature = static_cast<float>(t);
    with_.beta = static_cast<float>(kd ? 0 : c.beta.value_or(0.5));
    with_.divergence = static_cast<float>(kd ? (1 - alpha) * t * t : 1);
    with_.cross_entropy = static_cast<float>(kd ? alpha : 0);
  }

  std::int64_t count(const BatchShape& s) const override { return s.targets; }
  // Counts sequences, as in TRL: its evaluations weight the mean over a batch's targets by its sequences.
  std::int64_t count_evaluated(const BatchShape& s) const override { return s.targets > 0 ? s.sequences : 0; }
  void forward(const Pass& p, const Batch& b, Tensor loss) override {
    Scope saved(p.context.saved);
    const auto sequences = static_cast<float>(b.starts.size()) - 1;
    Lesson lesson(*this, p, b, sequences / std::max(1.0f, static_cast<float>(b.targets.size())));
    p.policy.model->forward(p.context, *p.policy.store, b, LogitLosses{loss, &lesson});
  }
  void forward_backward(const Pass& p, const Batch& b, Tensor loss, float scale) override {
    Scope saved(p.context.saved);
    Lesson lesson(*this, p, b);
    p.policy.model->forward_backward(p.context, *p.policy.store, b, LogitLosses{loss, &lesson, scale});
  }

 private:
  // A batch with the teacher's logits.
  class Lesson final : public LogitLoss {
   public:
    Lesson(const Distill& of, const Pass& p, const Batch& b, float each = 1)
        : with_(of.with_), teacher_(of.taught_ ? of.taught_->logits(b) : asked(p, b)) {
      with_.divergence *= each;
      with_.cross_entropy *= each;
    }
    void run(Ctx& c, const Chunk& k) override {
      Scope scratch(c.scratch);
      const Tensor teacher = c.temporary(k.logits.rows(), k.logits.cols());
      teacher_->write(c, teacher, k.begin);
      op::Divergence d = with_;
      d.loss = k.losses;
      d.logits = k.logits;
      d.teacher = teacher;
      d.targets = k.targets;
      d.scale = k.scale;
      d.cap = k.cap;
      d.gradient = k.gradient;
      c.ops.run(d);
    }

   private:
    static std::unique_ptr<TargetLogits> asked(const Pass& p, const Batch& b) {
      Ctx c = p.context;
      c.train = false;
      return p.others.reference.model->target_logits(c, *p.others.reference.store, b);
    }
    op::Divergence with_;
    std::unique_ptr<TargetLogits> teacher_;
  };

  std::shared_ptr<const TeacherFile> taught_;  // null: the reference model is the teacher
  op::Divergence with_{.loss = Tensor{}, .logits = Tensor{}, .teacher = Tensor{}, .targets = Tensor{}};
};

}  // namespace

std::unique_ptr<Objective> make_distill(const ObjectiveConfig& c, std::shared_ptr<const TeacherFile> taught) {
  return std::make_unique<Distill>(c, std::move(taught));
}

}  // namespace ft
