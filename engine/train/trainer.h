// The training loop: micro-batches, an optimizer step, and at intervals an evaluation, a checkpoint, a row in
// the log.
#pragma once
#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "engine/model/model.h"
#include "engine/ranks/communicator.h"
#include "engine/train/audit.h"
#include "engine/train/checkpoint.h"
#include "engine/train/config.h"
#include "engine/train/loss_scaler.h"
#include "engine/train/objectives/objective.h"
#include "engine/train/optimizers/optimizer.h"
#include "engine/train/reports/report.h"
#include "engine/train/saving.h"
#include "engine/train/schedules/schedule.h"
#include "engine/train/traffic.h"

namespace ft {

// Length of a run.
struct Length {
  std::int64_t batches_per_epoch = 0, steps_per_epoch = 0, total_steps = 0,
               epochs = 0;  // epochs: number of passes that are begun
};
// ranks: number of ranks that take different micro-batches.
Length length_of(const TrainingConfig&, const BatchSource&, int ranks);

// The micro-batches of a rank: of every `ranks` consecutive ones, number `rank`.
struct Deal {
  int rank = 0, ranks = 1;
};
// comm: see TrainerParts. Ranks that share a sequence take the same micro-batches.
Deal deal_of(const Ctx&, const Communicator& comm);

// Result of an evaluation: the mean loss over all of `data`, without dropout, and the objective's columns.
// targets: the number that the objective counts. `progress` gets the number of batches.
struct Evaluated {
  double loss = 0;
  std::int64_t targets = 0;
  Measures columns = {};
};
Evaluated evaluate(const Pass&, Objective&, const BatchSource& data,
                   const std::function<void(std::int64_t done, std::int64_t of)>& progress);

struct TrainerParts {
  Ctx& context;
  Model& model;
  ParameterStore& store;
  Communicator& comm;  // the ranks that add up gradients; Grid::zero() of the context's grid if it has one
  const BatchSource& data;
  BatchSource* eval;  // null: nothing is held out
  Checkpoints& checkpoints;
  Report& report;
  std::function<bool()> stop_asked;                         // true after a signal
  std::function<bool()> save_asked = [] { return false; };  // true once after a signal to save and go on
  std::function<void(const std::string& folder)> add_to_checkpoint;
  double flops_per_token = 0;
  std::function<Measures()> measure = {};  // measures generated text; none: nothing is generated
  std::function<Measures(std::int64_t step)> columns = {};  // returns further columns for the log
  Objective* objective = nullptr;                           // null: the cross-entropy of every target
  Others others = {};            // the objective's other models; a critic is trained too
  Snapshot* snapshot = nullptr;  // null: training waits for checkpoints
};

enum class Ending : std::uint8_t { finished, early, preempted };

class Trainer {
 public:
  Trainer(TrainerParts parts, const TrainConfig& config);
  // Runs from `state` to the end; the state is up to date at every return and throw.
  Ending run(TrainState& state);
  const Length& length() const { return length_; }
  double train_seconds() const { return train_seconds_; }  // in steps, without evaluations and saving
  // Returns this rank's bytes: sent to other ranks in the last step, and the average moved to and from
  // offloaded data.
  Traffic traffic_per_step() const {
    return {.sent = sent_, .moved = steps_ > 0 ? traffic_.moved / steps_ : Moved{}};
  }
  std::string files_by() const { return p_.store.moved_by(); }

 private:
  struct Step {
    std::int64_t index = 0, epoch = 0, begin = 0, end = 0;  // micro-batches [begin, end) of an epoch
    std::int64_t targets = 0, tokens = 0;                   // targets: the number that the objective counts
    double loss_sum = 0, grad_norm = 0, rate = 0;
    double critic_norm = 0;       // gradient norm of the critic, which grad_norm does not include
    double loss_scale = 1;        // factor of its gradients; fp16 only
    bool early = false;           // units are stepped during its backward pass
    bool nonfinite = false;       // it is skipped because its loss or gradient is not finite
    bool own = false;             // its gradients are not added up over ranks (Optimizer::own_from)
    std::vector<double> columns;  // the objective's columns, see ColumnMeans
    // Returns true if the gradients are finite.
    bool finite() const { return std::isfinite(grad_norm) && std::isfinite(critic_norm); }
    // Returns Ctx::tokens_weight of a micro-batch with `of` tokens.
    float mean_weight(std::int64_t of) const {
      return static_cast<float>(static_cast<double>(targets) * static_cast<double>(of) /
                                static_cast<double>(std::max<std::int64_t>(1, tokens)));
    }
  };
  void or_save(TrainState&, const std::function<void()>& part);  // saves if the objective refuses
  Step step(TrainState&);
  StepScalars scalars_of(const Step&, std::int64_t taken) const;  // without the gradient's scale
  bool delays(const Step& s) const;                               // the update is made in the next step
  std::optional<EarlyStep> early(const TrainState&, const Step&, std::int64_t taken) const;
  void update(TrainState&, Step&, std::int64_t taken);
  void step_critic(const Step&, std::int64_t taken);
  bool skips(TrainState&, Step&);           // fp16: gradients overflow, and the scale is changed
  void refuse_or_skip(TrainState&, Step&);  // a loss or gradient that is not finite
  std::int64_t batches_per_step() const;    // of all ranks
  std::int64_t rounds_of(std::int64_t micro_batches) const;
  Step batches_of(std::int64_t index) const;
  double accumulate(Ctx&, const Step&);
  enum class Asked : std::uint8_t { nothing, save, stop };
  Asked asked();  // on any rank
  [[noreturn]] void explain_not_finite(const Step&);
  static void add_losses(TrainState&, const Step&);
  void log(TrainState&, const Step&);
  bool evaluate_and_judge(TrainState&);  // returns true if this is the best so far
  void save(TrainState&);
  void finish_saving();
  Ending steps(TrainState&);  // runs all steps
  Communicator& world() const { return p_.context.grid ? p_.context.grid->world() : p_.comm; }
  void begin_audits(const TrainState&);
  void audit(const TrainState&, const Step&);
  bool due(double every, std::int64_t step) const;
  double epoch_of(std::int64_t step) const;

  Deal deal() const { return deal_of(p_.context, p_.comm); }
  Pass pass(Ctx& c) { return {c, {&p_.model, &p_.store}, p_.others}; }

  TrainerParts p_;
  TrainConfig config_;
  std::unique_ptr<Objective> own_;  // used if none was given
  Objective& objective_;
  Length length_;
  std::unique_ptr<const Optimizer> optimizer_;
  std::unique_ptr<const Schedule> schedule_;
  std::unique_ptr<EvaluatedRate> by_evaluations_;  // used in place of the schedule
  double train_seconds_ = 0, row_seconds_ = 0;
  Phases::Seconds row_phases_{};                               // at the last row
  std::optional<LossScaler> scaler_;                           // fp16
  std::int64_t row_tokens_ = 0, saved_step_ = -1, steps_ = 0;  // of this process
  Traffic traffic_;
  std::int64_t sent_ = 0;  // in the last step
  std::optional<Audit> audit_;
  Saving saving_;
};

}  // namespace ft
