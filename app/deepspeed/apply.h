// Maps DeepSpeed's file onto a run's settings, as transformers' Trainer does: "auto" takes the run's value,
// settings that the run leaves open take the file's value, and values given by both must agree.
#pragma once
#include <filesystem>

#include "app/deepspeed/report.h"
#include "engine/settings/fields.h"

namespace ft::deepspeed {

// The run's settings without the file.
struct RunSide {
  Json settings;               // all settings, defaults included
  std::vector<Setting> known;  // all settings that ft has
  bool gpu = false;
  std::int64_t hidden_size = 0;  // of the model; 0: not known
  int ranks = 1;                 // all ranks, over all kinds of parallelism
  bool trains = false;           // the batch numbers must agree with the ranks
};

// Returns the file that the tree's setting `deepspeed` names or contains. Relative paths are relative to
// `folder`.
SettingsText file_of(const SettingsText& tree, const std::filesystem::path& folder);

// Puts the file's settings into the tree. Returns a row for each leaf of the file; errors are in
// Report::mistakes.
Report apply(const SettingsText& file, SettingsText& tree, const RunSide& run);

// Fills in the values of "auto" from the run's effective settings.
void settle(Report&, const Json& settings);

}  // namespace ft::deepspeed
