// The content of a checkpoint, by name and complete, independent of the number of ranks and the ZeRO stage,
// although every rank writes its own part of each file: the trained weights in the usual files (an adapter as
// PEFT writes it, or a model as transformers does), the optimizer's states, a critic with its own, and the
// position in the run. The folder's protocol (all or nothing, hashed, atomic replacement of a checkpoint of
// the same step) is engine/files/checkpoint_folder.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/files/checkpoint_folder.h"
#include "engine/files/safetensors_write.h"
#include "engine/model/model.h"
#include "engine/train/loss_scaler.h"
#include "engine/train/objectives/objective.h"
#include "engine/train/optimizers/optimizer.h"
#include "engine/train/schedules/evaluated.h"
#include "engine/zero/parameter_store.h"

namespace ft {

// A SHA-256 for each setting that names files.
using FileHashes = std::map<std::string, std::string>;

// Where a run stands after `step` optimizer steps. What is random is a function of the step, so this is all.
struct TrainState {
  std::int64_t step = 0;
  std::int64_t tokens_seen = 0;
  double loss_sum = 0;  // since the last row of the log
  std::int64_t loss_targets = 0;
  std::vector<double> column_sums;  // of the objective's columns, since the last row
  std::vector<double> objective;    // what it remembers: see Objective::state
  double run_loss_sum = 0;          // since the run's first step
  std::int64_t run_loss_targets = 0;
  double flops = 0;
  std::optional<double> best;  // metric of the best evaluation
  std::int64_t best_step = 0;
  std::int64_t evaluations_since_best = 0;
  std::optional<LossScaler::State> loss_scaler;        // fp16
  std::int64_t skipped_steps = 0;                      // of `step`; fp16
  std::optional<EvaluatedRate::State> evaluated_rate;  // reduce_lr_on_plateau, greedy
  // How the gradients of the last step are to be applied in the next one; none: they have been.
  std::optional<StepScalars> delayed;
  // Micro-batches per epoch, and per step on all ranks together.
  std::int64_t batches_per_epoch = 0, accumulation = 0;
  FileHashes sources;  // files that the run reads; empty: saved before checkpoints held them
};

// How a folder stores trained weights.
class ModelFiles {
 public:
  virtual ~ModelFiles() = default;
  // Makes the files, on rank 0; the values are filled in by fill_in. exact: f32 whatever the run's type, to
  // resume from.
  virtual void create(const std::string& folder, bool exact) = 0;
  virtual std::int64_t bytes(bool exact) const = 0;         // that the weights take
  virtual std::string name_of(const Parameter&) const = 0;  // in the files
  // Makes a result of what create() made and is filled in, on rank 0.
  virtual void complete(const std::string& /*folder*/) {}
  // Reads what create(exact) made. UserError(Exit::checkpoint) when it does not fit the model.
  virtual ReadParameter read(const std::string& folder) = 0;
};

// Writes this rank's part of all that is trained into the files that rank 0 has made in a folder, which all
// ranks see: the weights, and the optimizer's states for a checkpoint. Every rank calls.
// average: in place of the weights their moving average, the last state.
enum class Content : std::uint8_t { weights, average, weights_and_states, with_gradients };
void fill_in(const std::string& folder, ParameterStore&, const ModelFiles&, Content);

class Checkpoints {
 public:
  // The optimizer's states are cut into files of at most max_shard_bytes, which are hashed side by side.
  // critic: trained beside the model; none: nothing is.
  Checkpoints(Model& model, ParameterStore& store, Communicator& comm, ModelFiles& files,
              std::string output_dir, std::int64_t max_shard_bytes = kMaxShardBytes, Policy critic = {});

  // Saves checkpoint-<step>; returns its folder on rank 0, where `extra` writes more files into it before it
  // is sealed. Every rank calls and writes its part; if one fails all do, and no checkpoint appears.
  std::string save(const TrainState&, const std::function<void(const std::string& folder)>& extra);
  // On every rank: restores weights, states and TrainState from an opened, and so verified, checkpoint.
  // states: false leaves the optimizer's as they are at the start of a run.
  TrainState load(const Checkpoint&, bool states = true);
  // Only the weights, and a critic.
  void load_weights(const std::string& folder);
  // Bytes that one takes, but for the files of `extra`.
  std::int64_t bytes() const;
  // Deletes the oldest until `most` are left; `keep` (a step, 0: none) is spared.
  void prune(std::int64_t most, std::int64_t keep);

 private:
  // What files hold of each parameter that is trained, beside the optimizer's states.
  struct Stored {
    Model& model;
    ParameterStore& store;
    std::string stem;             // of the files' names
    std::string prefix = {};      // of the tensors'
    std::vector<StateSpec> more;  // kValue, where no ModelFiles has the values; kGradient
  };
  Stored optimizer(bool gradients) const;
  Stored critic() const;
  static std::vector<TensorSpec> specs_of(const Stored&);
  void create(const std::string& folder, const Stored&) const;
  static void restore(const std::string& folder, const Stored&);

  Model& model_;
  ParameterStore& store_;
  Communicator& comm_;
  ModelFiles& files_;
  std::string output_dir_;
  std::int64_t max_shard_bytes_;
  Policy critic_;
};

}  // namespace ft
