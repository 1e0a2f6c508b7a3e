// The content of a checkpoint. It is complete and ordered by name, independent of the number of ranks and the
// ZeRO stage, although every rank writes its part of each file. It holds the trained weights in the usual
// files (an adapter as PEFT writes it, or a model as transformers does), the optimizer's states, a critic
// with its states, and the position in the run. The folder's protocol (all or nothing, hashed, atomic
// replacement of a checkpoint of the same step) is in engine/files/checkpoint_folder.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/files/checkpoint_folder.h"
#include "engine/files/safetensors/safetensors_write.h"
#include "engine/model/model.h"
#include "engine/train/loss_scaler.h"
#include "engine/train/objectives/objective.h"
#include "engine/train/optimizers/optimizer.h"
#include "engine/train/saved_parts.h"
#include "engine/train/schedules/evaluated.h"
#include "engine/zero/parameter_store.h"

namespace ft {

// Maps each setting that names files to a SHA-256.
using FileHashes = std::map<std::string, std::string>;

// The position of a run after `step` optimizer steps. Random numbers are a function of the step, so nothing
// else is needed.
struct TrainState {
  std::int64_t step = 0;
  std::int64_t tokens_seen = 0;
  double loss_sum = 0;  // since the last row of the log
  std::int64_t loss_targets = 0;
  std::vector<double> column_sums;  // the objective's columns, since the last row
  std::vector<double> objective;    // the objective's memory: see Objective::state
  double run_loss_sum = 0;          // since the run's first step
  std::int64_t run_loss_targets = 0;
  double flops = 0;
  std::optional<double> best;  // metric of the best evaluation
  std::int64_t best_step = 0;
  std::int64_t evaluations_since_best = 0;
  std::optional<LossScaler::State> loss_scaler;        // fp16
  std::int64_t skipped_steps = 0;                      // part of `step`: without an update
  std::int64_t nonfinite_steps = 0;                    // part of skipped_steps: training.on_nonfinite
  std::optional<EvaluatedRate::State> evaluated_rate;  // reduce_lr_on_plateau, greedy
  // Scalars for applying the last step's gradients in the next step; none: they have been applied.
  std::optional<StepScalars> delayed;
  // Micro-batches per epoch, and per step on all ranks together.
  std::int64_t batches_per_epoch = 0, accumulation = 0;
  FileHashes sources;  // files that the run reads; empty: written before checkpoints held them
};

// Reads and writes trained weights in a folder.
class ModelFiles {
 public:
  virtual ~ModelFiles() = default;
  // Creates the files, on rank 0; fill_in writes the values. exact: f32 whatever the run's dtype, for
  // resuming.
  virtual void create(const std::string& folder, bool exact) = 0;
  virtual std::int64_t bytes(bool exact) const = 0;         // size of the weights
  virtual std::string name_of(const Parameter&) const = 0;  // name in the files
  // Returns the number of the parameter's first element in its tensor in the files.
  virtual std::int64_t first_of(const Parameter&) const { return 0; }
  // Finishes the created and filled files as a result, on rank 0.
  virtual void complete(const std::string& /*folder*/) {}
  // Reads the files of create(exact). Throws UserError (checkpoint) if they do not fit the model.
  virtual ReadParameter read(const std::string& folder) = 0;
};

// Writes this rank's part of the trained weights, and for a checkpoint of the optimizer's states, into files
// that rank 0 has created in a folder that all ranks see. Every rank calls it.
void fill_in(const std::string& folder, ParameterStore&, const ModelFiles&, Content);

class Checkpoints {
 public:
  // The optimizer's states are split into files of at most max_shard_bytes, which are hashed in parallel.
  // critic: a model trained together with this one, or none.
  Checkpoints(Model& model, ParameterStore& store, Communicator& comm, ModelFiles& files,
              std::string output_dir, std::int64_t max_shard_bytes = kMaxShardBytes, Policy critic = {});

  // Saves checkpoint-<step>, and returns its folder on rank 0. There `extra` writes more files into the
  // folder before it is sealed. Every rank calls this and writes its part; if one fails all do, and no
  // checkpoint appears.
  std::string save(const TrainState&, const std::function<void(const std::string& folder)>& extra);

  // The steps of save(), for saving beside training (saving.h). A checkpoint that is begun and not completed
  // leaves no files.
  struct Begun {
    TrainState state = {};
    std::string folder = {};
    std::unique_ptr<CheckpointWriter> writer = {};  // on rank 0
  };
  static constexpr const char *kWritePart = "save its part", *kComplete = "complete a checkpoint";
  // Creates the files, and shares the folder with all ranks, which call it together.
  Begun begin(const TrainState&, const std::function<void(const std::string& folder)>& extra);
  // Sends this rank's part of the files' values.
  void send_part(const Begun&, PartSink&);
  // Seals the files that all ranks have filled in, and returns the checkpoint's folder on rank 0. Touches
  // nothing that training changes.
  static std::string complete(Begun&);

  // Restores weights, states and TrainState on every rank, from a checkpoint that was opened and so verified.
  // states: false leaves the optimizer's states as at the start of a run.
  TrainState load(const Checkpoint&, bool states = true);
  // Reads only the weights, and a critic's.
  void load_weights(const std::string& folder);
  // Returns the bytes of a checkpoint, without the files of `extra`.
  std::int64_t bytes() const;
  // Deletes the oldest checkpoints until `most` are left; `keep` (a step, 0: none) is not deleted.
  void prune(std::int64_t most, std::int64_t keep);

 private:
  // Files with data of each trained parameter, in addition to the weights' files: the optimizer's states, and
  // more.
  struct Stored {
    Model& model;
    ParameterStore& store;
    std::string stem;             // prefix of the files' names
    std::string prefix = {};      // prefix of the tensors' names
    std::vector<StateSpec> more;  // kValue for values that no ModelFiles stores; kGradient
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
