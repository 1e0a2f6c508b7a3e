// The run that --overwrite replaces. Its files move into OUTPUT_DIR/replaced-run and stay there until the new
// run has a checkpoint or ends, so that a new run that fails at once costs nothing. While they move, the
// folder is called replaced-run.part: a command that finds it knows that the files beside it belong to the
// old run, and resumes from none of them.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "engine/train/reports/report.h"

namespace ft {

// True if a killed command began to move a run away.
bool is_being_replaced(const std::string& output_dir);

// True if replaced-run has a run already, and `files`, which lie in output_dir, have no checkpoint: they are
// of a run that ended before it had one, and the older run is the one to keep.
bool keeps_older_run(const std::string& output_dir, const std::vector<std::filesystem::path>& files);
// Moves `files`, which lie in output_dir or a folder there, into replaced-run, with a copy of run.json.
// Removes a run that was replaced before, or, if that is kept, `files`. Throws UserError (storage).
void move_into_replaced(const std::string& output_dir, const std::vector<std::filesystem::path>& files);

// Removes replaced-run, if it is there. Throws UserError (storage).
void remove_replaced(const std::string& output_dir);

// Returns the folder of the replaced run; empty: there is none.
std::string replaced_run(const std::string& output_dir);

// Removes the replaced run when the new one has a checkpoint.
class ForgetReplaced final : public Report {
 public:
  ForgetReplaced(std::string output_dir, Report& warned)
      : output_dir_(std::move(output_dir)), warned_(warned) {}
  void saved(const SavedRow&) override;

 private:
  std::string output_dir_;
  Report& warned_;
};

}  // namespace ft
