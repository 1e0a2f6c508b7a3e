// The output folder of a run: what must not exist yet, what a resumed run continues from, and what the folder
// holds at the end.
#pragma once
#include <memory>

#include "app/config/config.h"
#include "engine/io/checkpoint_folder.h"
#include "engine/train/checkpoint.h"
#include "engine/train/report.h"

namespace ft {

struct Resumed {
  std::string from;                  // the checkpoint; empty: a fresh start
  std::vector<std::string> skipped;  // why newer ones were passed over
};

class RunFolder {
 public:
  // UserError when the folder holds a run that is neither resumed nor to be overwritten, or one to be
  // overwritten that this run reads, or cannot be a folder. Nothing is written yet.
  // Only the root checks, makes and writes; the other ranks read.
  RunFolder(const RunConfig&, bool overwrite, bool root);

  // The checkpoint that training.resume_from_checkpoint means; nothing: a fresh start. UserError as resume().
  NewestCheckpoint found() const;
  // Restores weights, states and `state` from the checkpoint that training.resume_from_checkpoint means, and
  // the rows before it into the header. UserError(Exit::checkpoint) when there is none where one must be.
  Resumed resume(Checkpoints&, TrainState& state, RunHeader&);
  // Makes the folder, empty of what an overwritten run left, checkpoints too, and writes run.json.
  void create();
  // More files for a checkpoint.
  void add_to_checkpoint(const std::string& folder);
  // The critic as a reward model, in a folder of its own; every rank its part.
  void write_critic(ModelFiles&, ParameterStore&, Communicator&) const;
  // Writes the result, every rank its part; says in the summary what was made and what to type next.
  // held_out: there are samples to evaluate on.
  void finish(ModelFiles&, ParameterStore&, Communicator&, bool held_out, Summary&);

 private:
  std::string path(const char* name) const;
  void remove_run() const;
  void write_result(ModelFiles&, ParameterStore&, Communicator&) const;
  void write_folder(const char* name, ModelFiles&, ParameterStore&, Communicator&, Content) const;
  void copy_companions_to(const std::string& folder) const;

  const RunConfig& config_;
  std::string folder_;
  bool root_;
  bool replaces_ = false;  // a run that the folder holds
};

}  // namespace ft
