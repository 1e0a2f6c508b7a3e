// DeepSpeed's file onto a run's settings, as transformers' Trainer does it: "auto" takes the run's value,
// what the run leaves open takes the file's, and what both say must agree.
#pragma once
#include <filesystem>

#include "app/deepspeed/report.h"
#include "engine/settings/fields.h"

namespace ft::deepspeed {

// What the run says without the file.
struct RunSide {
  Json settings;               // all, defaults included
  std::vector<Setting> known;  // the settings that there are
  bool gpu = false;
  std::int64_t hidden_size = 0;  // of the model; 0: not known
  int ranks = 1;                 // of all kinds of parallelism together
  bool trains = false;           // its batch numbers must agree with the ranks
};

// The file that the setting `deepspeed` of a tree names, or is. Relative paths in a file are relative to
// `folder`.
SettingsText file_of(const SettingsText& tree, const std::filesystem::path& folder);

// Puts the file's settings into the tree; a row for each of its leaves. What is wrong is in Report::mistakes.
Report apply(const SettingsText& file, SettingsText& tree, const RunSide& run);

// The values of "auto", from the run's settings in effect.
void settle(Report&, const Json& settings);

}  // namespace ft::deepspeed
