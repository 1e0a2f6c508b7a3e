// Merges DeepSpeed's file into a run's settings.
#pragma once
#include <filesystem>

#include "app/config/config.h"
#include "engine/settings/fields.h"

namespace ft {

// Puts the settings of DeepSpeed's file into the tree; `config` was read from this tree. Throws UserError
// (config) if the file cannot be read, deepspeed::Refused if keys are refused or contradict the tree.
std::shared_ptr<deepspeed::Report> take_deepspeed(SettingsText& tree, const RunConfig& config,
                                                  const std::filesystem::path& folder, StepRanks size);

// Fills in the values of "auto" in the report, except values that need the run's data.
void settle_report(deepspeed::Report&, const RunConfig&);

}  // namespace ft
