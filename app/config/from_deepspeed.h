// DeepSpeed's file beside run.json.
#pragma once
#include <filesystem>

#include "app/config/config.h"
#include "engine/io/fields.h"

namespace ft {

// Puts the settings of DeepSpeed's file into the tree, which `config` was read from. UserError(Exit::config)
// for a file that cannot be read, deepspeed::Refused for keys that are refused or contradict the tree.
std::shared_ptr<deepspeed::Report> take_deepspeed(SettingsText& tree, const RunConfig& config,
                                                  const std::filesystem::path& folder, StepRanks size);

// Fills in the values of "auto" in the report on its file, but for those that need the run's data.
void settle_report(deepspeed::Report&, const RunConfig&);

}  // namespace ft
