// The output folder of a run: checks that it may be written, finds the checkpoint to resume from, and writes
// the result.
#pragma once
#include <memory>
#include <optional>

#include "app/config/config.h"
#include "app/train/checkpoints/changes.h"
#include "app/train/room.h"
#include "data/rows/dataset.h"
#include "engine/files/checkpoint_folder.h"
#include "engine/files/folder_lock.h"
#include "engine/train/checkpoint.h"
#include "engine/train/reports/report.h"

namespace ft {

struct Resumed {
  std::string from;                  // path of the checkpoint; empty: a fresh start
  std::vector<std::string> skipped;  // reasons why newer checkpoints were skipped
  Changes changes;                   // changes since the checkpoint; set on the root
};

// Throws UserError (config) if training.output_dir is inside a file, may not be written, or is the folder of
// a model that the run reads.
void require_place(const RunConfig&);
// Throws UserError (config) if the run is neither resumed nor to overwrite, and its folder has one.
void require_no_run(const RunConfig&, bool overwrite);

class RunFolder {
 public:
  // Throws UserError (config) if the folder holds a run that is neither resumed nor overwritten; if the run
  // to be overwritten is an input of this run; if the path cannot be a folder, or is the model's or the
  // adapter's folder; or if another run is running in it. Throws UserError (checkpoint) if the checkpoint to
  // resume from is missing or damaged, or has another function or optimizer. Writes nothing yet. Only the
  // root checks, creates and writes; the other ranks read.
  RunFolder(const RunConfig&, bool overwrite, bool root);

  // Tells every rank the checkpoint that the root found. Every rank calls it. Throws UserError (checkpoint)
  // on a rank that cannot read it.
  void agree_on_checkpoint(Communicator&);
  // Returns the checkpoint that training.resume_from_checkpoint means; null: a fresh start. Call it after
  // agree_on_checkpoint().
  const Checkpoint* checkpoint() const { return found_.checkpoint ? &*found_.checkpoint : nullptr; }
  // Restores weights, states and `state` from checkpoint(), and puts the rows before it into the header.
  Resumed resume(Checkpoints&, TrainState& state, RunHeader&);
  // Creates the folder, moves an overwritten run's files and checkpoints away, and writes run.json.
  // Results and checkpoints will record how the rows were written. Throws UserError (storage) if the disk has
  // no space for the run's files.
  // report: on DeepSpeed's file, kept beside run.json; null: there is none.
  // Returns a note on the overwritten run; empty: there is none.
  std::string create(const DiskNeeds&, Written, const deepspeed::Report* report);
  // Adds the files beside the weights to a checkpoint's folder. If the run's folder was removed meanwhile,
  // makes it again and warns.
  void add_to_checkpoint(const std::string& folder, Report&);
  // Writes the critic as a reward model into its own folder. Every rank writes its part.
  void write_critic(ModelFiles&, ParameterStore&, Communicator&) const;
  // Writes the result; every rank writes its part. Puts the files and the next commands into the summary.
  // `held_out`: there is data to evaluate on. Makes the run's folder again if it was removed, and warns.
  void finish(ModelFiles&, ParameterStore&, Communicator&, bool held_out, Summary&, Report&);

 private:
  std::string path(const char* name) const;
  void lock();
  NewestCheckpoint find_checkpoint() const;
  std::string move_run_away(const DiskNeeds&) const;
  void write_settings() const;
  void make_again(Report&);
  void prune() const;
  bool goes_on_here() const;
  void write_result(ModelFiles&, ParameterStore&, Communicator&) const;
  void write_folder(const char* name, ModelFiles&, ParameterStore&, Communicator&, Content) const;
  void copy_companions_to(const std::string& folder) const;

  const RunConfig& config_;
  std::string folder_;
  bool root_, overwrite_;
  Written written_ = Written::unknown;
  std::vector<std::int64_t> spared_;  // steps of checkpoints that are not pruned
  std::string deepspeed_;             // text of deepspeed.json; empty: there is none
  bool replaces_ = false;             // the run replaces one in the folder
  FolderLock lock_;
  NewestCheckpoint found_;
  FileHashes sources_;  // set on the root
  Changes changes_;
};

}  // namespace ft
