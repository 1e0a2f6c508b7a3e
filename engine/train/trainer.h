// The loop: micro-batches, one optimizer step, and now and then an evaluation, a checkpoint, a row in the
// log.
#pragma once
#include <functional>
#include <optional>

#include "engine/dist/communicator.h"
#include "engine/nn/model.h"
#include "engine/train/checkpoint.h"
#include "engine/train/config.h"
#include "engine/train/loss_scaler.h"
#include "engine/train/optimizers/optimizer.h"
#include "engine/train/report.h"

namespace ft {

// How far a run goes.
struct Length {
  std::int64_t batches_per_epoch = 0, steps_per_epoch = 0, total_steps = 0,
               epochs = 0;  // epochs: passes begun
};
Length length_of(const TrainingConfig&, const BatchSource&, int ranks);

// Mean loss over all targets of `data`, without dropout. `progress` gets batches.
struct Evaluated {
  double loss = 0;
  std::int64_t targets = 0;
};
Evaluated evaluate(Ctx context, Model&, ParameterStore&, Communicator&, const BatchSource& data,
                   const std::function<void(std::int64_t done, std::int64_t of)>& progress);

struct TrainerParts {
  Ctx& context;
  Model& model;
  ParameterStore& store;
  Communicator& comm;
  const BatchSource& data;
  BatchSource* eval;  // null: nothing is held out
  Checkpoints& checkpoints;
  Report& report;
  std::function<bool()> stop_asked;  // a signal came
  std::function<void(const std::string& folder)> add_to_checkpoint;
  double flops_per_token = 0;
  std::function<Measures()> measure = {};  // of generated text; none: nothing is generated
};

enum class Ending : std::uint8_t { finished, early, preempted };

class Trainer {
 public:
  Trainer(TrainerParts parts, const TrainConfig& config);
  // Runs from `state` to the end; the state is up to date at every return and throw.
  Ending run(TrainState& state);
  double train_seconds() const { return train_seconds_; }  // in steps; not in evaluations and savings
  std::int64_t sent_per_step() const { return steps_ > 0 ? sent_ / steps_ : 0; }  // bytes, to other ranks
 private:
  struct Step {
    std::int64_t index = 0, epoch = 0, begin = 0, end = 0;  // micro-batches [begin, end) of an epoch
    std::int64_t targets = 0, tokens = 0;
    double loss_sum = 0, grad_norm = 0, rate = 0;
    double loss_scale = 1;  // what its gradients were multiplied by; fp16 only
  };
  Step step(TrainState&);
  bool skips(TrainState&, const Step&);   // fp16: its gradients overflow, and the scale has been moved
  std::int64_t batches_per_step() const;  // micro-batches of all ranks
  Step batches_of(std::int64_t index) const;
  double accumulate(Ctx&, const Step&);
  bool stop_asked();  // of any rank
  [[noreturn]] void explain_not_finite(const Step&);
  void log(TrainState&, const Step&);
  bool evaluate_and_judge(TrainState&);  // whether this is the best so far
  void save(const TrainState&);
  bool due(double every, std::int64_t step) const;
  double epoch_of(std::int64_t step) const;

  TrainerParts p_;
  TrainConfig config_;
  Length length_;
  std::unique_ptr<const Optimizer> optimizer_;
  double train_seconds_ = 0, row_seconds_ = 0;
  std::optional<LossScaler> scaler_;                                      // fp16
  std::int64_t row_tokens_ = 0, saved_step_ = -1, sent_ = 0, steps_ = 0;  // of this process
};

}  // namespace ft
