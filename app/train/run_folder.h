// The output folder of a run: what must not exist yet, what a resumed run continues from, and what the folder
// holds at the end.
#pragma once
#include <memory>
#include <optional>

#include "app/config/config.h"
#include "app/train/changes.h"
#include "app/train/room.h"
#include "data/dataset.h"
#include "engine/io/checkpoint_folder.h"
#include "engine/io/folder_lock.h"
#include "engine/train/checkpoint.h"
#include "engine/train/report.h"

namespace ft {

struct Resumed {
  std::string from;                  // the checkpoint; empty: a fresh start
  std::vector<std::string> skipped;  // why newer ones were passed over
  Changes changes;                   // since the checkpoint, on the root
};

class RunFolder {
 public:
  // UserError when the folder holds a run that is neither resumed nor to be overwritten, or one to be
  // overwritten that this run reads, or cannot be a folder; when it is the model's or the adapter's own; when
  // another run is going on in it; when the checkpoint to go on from has another function or optimizer.
  // Nothing is written yet. Only the root checks, makes and writes; the other ranks read.
  RunFolder(const RunConfig&, bool overwrite, bool root);

  // The checkpoint that training.resume_from_checkpoint means; nothing: a fresh start. UserError as resume().
  const NewestCheckpoint& found() const;
  // Restores weights, states and `state` from the checkpoint that training.resume_from_checkpoint means, and
  // the rows before it into the header. UserError(Exit::checkpoint) when there is none where one must be.
  Resumed resume(Checkpoints&, TrainState& state, RunHeader&);
  // Makes the folder, removes an overwritten run's files from it, checkpoints too, and writes run.json.
  // Results and checkpoints will say how the rows were written. UserError (storage) when the disk has no room
  // for the run's files.
  // report: on DeepSpeed's file, kept beside run.json; null: there is none.
  void create(const DiskNeeds&, Written, const deepspeed::Report* report);
  // More files for a checkpoint.
  void add_to_checkpoint(const std::string& folder);
  // The critic as a reward model, in a folder of its own; every rank its part.
  void write_critic(ModelFiles&, ParameterStore&, Communicator&) const;
  // Writes the result, every rank its part; says in the summary what was made and what to type next.
  // held_out: there are samples to evaluate on.
  void finish(ModelFiles&, ParameterStore&, Communicator&, bool held_out, Summary&);

 private:
  std::string path(const char* name) const;
  void check_place() const;
  void lock();
  void require_no_run() const;
  std::int64_t bytes_of_run() const;
  void remove_run() const;
  void write_result(ModelFiles&, ParameterStore&, Communicator&) const;
  void write_folder(const char* name, ModelFiles&, ParameterStore&, Communicator&, Content) const;
  void copy_companions_to(const std::string& folder) const;

  const RunConfig& config_;
  std::string folder_;
  bool root_, overwrite_;
  Written written_ = Written::unknown;
  bool replaces_ = false;  // a run that the folder holds
  FolderLock lock_;
  mutable std::optional<NewestCheckpoint> found_;
  FileHashes sources_;  // of the root
  Changes changes_;
};

}  // namespace ft
