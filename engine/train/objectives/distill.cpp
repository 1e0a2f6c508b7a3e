// Distillation: a student learns a teacher's distribution at every target, as in TRL's GKDTrainer (the
// generalized Jensen-Shannon divergence), or with kd, which mixes the forward KL with the cross-entropy
// (Hinton et al. 2015).
#include <algorithm>

#include "engine/core/error.h"
#include "engine/ops/ops.h"
#include "engine/train/objectives/list.h"
#include "engine/train/objectives/objective.h"
#include "engine/train/objectives/teacher_file.h"
#include "engine/train/schedules/list.h"

namespace ft {
namespace {

enum class DistillLoss : std::uint8_t { jsd, kd };
constexpr auto words(DistillLoss) {
  using enum DistillLoss;
  return to_words<DistillLoss>({{jsd, "jsd"}, {kd, "kd"}});
}

bool is_kd(const LossSettings& c) { return losses_of<DistillLoss>(c)[0] == DistillLoss::kd; }

class Distill final : public Objective {
 public:
  Distill(const ObjectiveConfig& c, std::shared_ptr<const TeacherFile> taught) : taught_(std::move(taught)) {
    const bool kd = is_kd(c);
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

// Throws for settings of answers that models give if there are none.
void check_answers(const ObjectiveConfig& c, const Refuse& refuse) {
  if (c.num_iterations)
    refuse("objective.num_iterations: distill has answers given anew at each step; leave it out");
  if (c.steps_per_generation)
    refuse("objective.steps_per_generation: distill has answers given anew at each step; leave it out");
  const bool own = c.lmbda.value_or(0) > 0, taught = c.seq_kd.value_or(false);
  if (taught && c.lmbda.value_or(0) == 1)
    refuse("objective.seq_kd: has no effect with objective.lmbda=1; leave it out");
  if ((own || taught) && c.teacher_file)
    refuse(
        "objective.teacher_file: it knows only the data's answers, and objective.lmbda or seq_kd has others; "
        "name "
        "objective.teacher_model_name_or_path");
  if (own || taught) return;
  for (const auto& [given, name] :
       {std::pair{c.max_completion_length.has_value(), "max_completion_length"},
        std::pair{c.top_k.has_value(), "top_k"}, std::pair{c.top_p.has_value(), "top_p"},
        std::pair{c.min_p.has_value(), "min_p"},
        std::pair{c.repetition_penalty.has_value(), "repetition_penalty"}})
    if (given)
      refuse(str("objective.", name,
                 ": has no effect without objective.lmbda or objective.seq_kd; leave it out"));
}

void check_distill(const ObjectiveConfig& c, const Refuse& refuse) {
  check_answers(c, refuse);
  if (!c.teacher_model_name_or_path && !c.teacher_file)
    refuse(
        "objective.teacher_model_name_or_path: objective.type distill learns from a teacher; name its "
        "folder, or objective.teacher_file");
  if (c.teacher_model_name_or_path && c.teacher_file)
    refuse("objective.teacher_file: is in place of objective.teacher_model_name_or_path; leave one out");
  const bool kd = is_kd(c);
  if (kd && c.beta)
    refuse("objective.beta: kd takes the forward KL; leave it out, or leave out objective.loss_type");
  if (!kd && c.alpha) refuse("objective.alpha: has no effect without objective.loss_type=kd");
  if (c.beta.value_or(0) > 1) refuse("objective.beta: of distill is between 0 and 1");
  if (c.alpha.value_or(0) < 0 || c.alpha.value_or(0) > 1)
    refuse("objective.alpha: of distill is between 0 and 1");
}

ObjectiveNeeds needs_of_distill(const ObjectiveConfig& c) {
  return {.teacher = true, .own = c.lmbda.value_or(0), .taught = c.seq_kd.value_or(false)};
}

std::unique_ptr<Objective> make_distill(const ObjectiveConfig& c, const ObjectiveParts& parts) {
  return std::make_unique<Distill>(c, parts.taught);
}

}  // namespace

const ObjectiveKind objectives::kDistill{
    .name = "distill",
    .rate = {2e-5, 2e-4, &schedules::kCosine},
    .encoder_decoder = true,
    .settings = settings_of<LossSettings, BetaSetting, AlphaSetting, DistillSettings, TemperatureSetting,
                            AnswerGeneration>,
    .losses = loss_words<DistillLoss>,
    .check = check_distill,
    .needs = needs_of_distill,
    .make = make_distill};

}  // namespace ft
