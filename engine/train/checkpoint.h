// What a checkpoint holds, by name and whole, whatever the number of ranks and the ZeRO stage: the trained
// weights in the files that users know (an adapter as PEFT writes it, or a model as transformers does), the
// optimizer's states, and where the run stands. The folder's protocol (all or nothing, hashed, a checkpoint
// of the same step replaced at one stroke) is engine/io/checkpoint_folder.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/dist/parameter_store.h"
#include "engine/io/checkpoint_folder.h"
#include "engine/nn/model.h"

namespace ft {

// Where a run stands after `step` optimizer steps. What is random is a function of the step, so this is all.
struct TrainState {
  std::int64_t step = 0;
  std::int64_t tokens_seen = 0;
  double loss_sum = 0;  // since the last row of the log
  std::int64_t loss_targets = 0;
  double run_loss_sum = 0;  // since the run's first step
  std::int64_t run_loss_targets = 0;
  double flops = 0;
  std::optional<double> best;  // metric of the best evaluation
  std::int64_t best_step = 0;
  std::int64_t evaluations_since_best = 0;
  // Micro-batches of a pass, and of a step on all ranks together; a resumed run must have the same.
  std::int64_t batches_per_epoch = 0, accumulation = 0;
};

// The whole f32 values of a trained parameter.
using FetchParameter = std::function<void(const Parameter&, std::span<float>)>;

// How trained weights lie in a folder.
class ModelFiles {
 public:
  virtual ~ModelFiles() = default;
  // Writes them, on rank 0. exact: f32 whatever the run's type, to resume from.
  virtual void write(const std::string& folder, const FetchParameter&, bool exact) = 0;
  // Reads what write(exact) wrote. UserError(Exit::checkpoint) when it does not fit the model.
  virtual ReadParameter read(const std::string& folder) = 0;
};

class Checkpoints {
 public:
  Checkpoints(Model& model, ParameterStore& store, ModelFiles& files, std::string output_dir, int states);

  // Saves checkpoint-<step>; returns its folder. `extra` writes more files into it before it is sealed. Every
  // rank calls; rank 0 gathers and writes.
  std::string save(const TrainState&, const std::function<void(const std::string& folder)>& extra);
  // On every rank: restores weights, states and TrainState from an opened, and so verified, checkpoint.
  TrainState load(const Checkpoint&);
  // Only the weights.
  void load_weights(const std::string& folder);
  // Deletes the oldest until `most` are left; `keep` (a step, 0: none) is spared.
  void prune(std::int64_t most, std::int64_t keep);

 private:
  void write_optimizer(const std::string& folder);
  void read_optimizer(const std::string& folder);
  std::vector<Parameter*> trained();

  Model& model_;
  ParameterStore& store_;
  ModelFiles& files_;
  std::string output_dir_;
  int states_;
};

}  // namespace ft
