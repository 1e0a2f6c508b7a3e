// The loop: micro-batches, one optimizer step, and now and then an evaluation, a checkpoint, a row in the
// log.
#pragma once
#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "engine/model/model.h"
#include "engine/ranks/communicator.h"
#include "engine/train/checkpoint.h"
#include "engine/train/config.h"
#include "engine/train/loss_scaler.h"
#include "engine/train/objectives/objective.h"
#include "engine/train/optimizers/optimizer.h"
#include "engine/train/reports/report.h"
#include "engine/train/schedules/schedule.h"
#include "engine/train/traffic.h"

namespace ft {

// How far a run goes.
struct Length {
  std::int64_t batches_per_epoch = 0, steps_per_epoch = 0, total_steps = 0,
               epochs = 0;  // epochs: passes begun
};
// ranks: those with micro-batches of their own.
Length length_of(const TrainingConfig&, const BatchSource&, int ranks);

// Which micro-batches a rank takes: of `ranks` in a row the one with number `rank`.
struct Deal {
  int rank = 0, ranks = 1;
};
// comm: as TrainerParts. Ranks that share a sequence take the same ones.
Deal deal_of(const Ctx&, const Communicator& comm);

// Mean loss over all of `data` (its targets, or what else the objective counts), without dropout, and the
// objective's columns. `progress` gets batches.
struct Evaluated {
  double loss = 0;
  std::int64_t targets = 0;
  Measures columns = {};
};
Evaluated evaluate(const Pass&, Objective&, const BatchSource& data,
                   const std::function<void(std::int64_t done, std::int64_t of)>& progress);
// The mean cross-entropy.
Evaluated evaluate(Ctx context, Model&, ParameterStore&, Communicator&, const BatchSource& data,
                   const std::function<void(std::int64_t done, std::int64_t of)>& progress);

struct TrainerParts {
  Ctx& context;
  Model& model;
  ParameterStore& store;
  Communicator& comm;  // the ranks that add up gradients; the context's Grid::zero(), where it has a grid
  const BatchSource& data;
  BatchSource* eval;  // null: nothing is held out
  Checkpoints& checkpoints;
  Report& report;
  std::function<bool()> stop_asked;  // a signal came
  std::function<void(const std::string& folder)> add_to_checkpoint;
  double flops_per_token = 0;
  std::function<Measures()> measure = {};                   // of generated text; none: nothing is generated
  std::function<Measures(std::int64_t step)> columns = {};  // more of them, for the log
  Objective* objective = nullptr;                           // null: the cross-entropy of every target
  Others others = {};                                       // the objective's; a critic is trained too
};

enum class Ending : std::uint8_t { finished, early, preempted };

class Trainer {
 public:
  Trainer(TrainerParts parts, const TrainConfig& config);
  // Runs from `state` to the end; the state is up to date at every return and throw.
  Ending run(TrainState& state);
  const Length& length() const { return length_; }
  double train_seconds() const { return train_seconds_; }  // in steps; not in evaluations and savings
  // Bytes of this rank: sent to others in the last step, and on the average moved between it and where else
  // things live.
  Traffic traffic_per_step() const {
    return {.sent = sent_, .moved = steps_ > 0 ? traffic_.moved / steps_ : Moved{}};
  }
  std::string files_by() const { return p_.store.moved_by(); }

 private:
  struct Step {
    std::int64_t index = 0, epoch = 0, begin = 0, end = 0;  // micro-batches [begin, end) of an epoch
    std::int64_t targets = 0, tokens = 0;                   // targets: what the objective counts
    double loss_sum = 0, grad_norm = 0, rate = 0;
    double critic_norm = 0;       // as grad_norm, which is without it
    double loss_scale = 1;        // what its gradients were multiplied by; fp16 only
    bool early = false;           // units are stepped beside its backward pass
    std::vector<double> columns;  // of the objective, see ColumnMeans
    bool finite() const { return std::isfinite(grad_norm) && std::isfinite(critic_norm); }  // gradients
    // Ctx::tokens_weight of a micro-batch.
    float mean_weight(std::int64_t of) const {
      return static_cast<float>(static_cast<double>(targets) * static_cast<double>(of) /
                                static_cast<double>(std::max<std::int64_t>(1, tokens)));
    }
  };
  void or_save(TrainState&, const std::function<void()>& part);  // of the objective
  Step step(TrainState&);
  StepScalars scalars_of(const Step&, std::int64_t taken) const;  // but for the gradient's scale
  bool delays(const Step& s) const;                               // its update to the next step
  std::optional<EarlyStep> early(const TrainState&, const Step&, std::int64_t taken) const;
  void update(TrainState&, const Step&, std::int64_t taken);
  void step_critic(const Step&, std::int64_t taken);
  bool skips(TrainState&, const Step&);   // fp16: its gradients overflow, and the scale has been moved
  std::int64_t batches_per_step() const;  // micro-batches of all ranks
  std::int64_t rounds_of(std::int64_t micro_batches) const;
  Step batches_of(std::int64_t index) const;
  double accumulate(Ctx&, const Step&);
  bool stop_asked();  // of any rank
  [[noreturn]] void explain_not_finite(const Step&);
  void log(TrainState&, const Step&);
  bool evaluate_and_judge(TrainState&);  // whether this is the best so far
  void save(TrainState&);
  bool due(double every, std::int64_t step) const;
  double epoch_of(std::int64_t step) const;

  Deal deal() const { return deal_of(p_.context, p_.comm); }
  Pass pass(Ctx& c) { return {c, {&p_.model, &p_.store}, p_.others}; }

  TrainerParts p_;
  TrainConfig config_;
  std::unique_ptr<Objective> own_;  // where none was given
  Objective& objective_;
  Length length_;
  std::unique_ptr<const Optimizer> optimizer_;
  std::unique_ptr<const Schedule> schedule_;
  std::unique_ptr<EvaluatedRate> by_evaluations_;  // in place of the schedule
  double train_seconds_ = 0, row_seconds_ = 0;
  Phases::Seconds row_phases_{};                               // when the last row was made
  std::optional<LossScaler> scaler_;                           // fp16
  std::int64_t row_tokens_ = 0, saved_step_ = -1, steps_ = 0;  // of this process
  Traffic traffic_;
  std::int64_t sent_ = 0;  // in the last step
};

}  // namespace ft
