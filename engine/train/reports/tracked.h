// Facts of a run that trackers show (W&B, MLflow, TensorBoard's hparams): its settings, the numbers of its
// rows, and the memory of machine and process.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "engine/files/json.h"
#include "engine/train/reports/report.h"

namespace ft {

// Flattens the tree of settings (RunHeader::settings) to leaves with dotted names. A list, and an object
// whose keys are not plain names (a pattern, a dotted path), stay leaves.
std::vector<std::pair<std::string, Json>> flat_settings(const std::string& settings);
// Returns a leaf as text: texts unchanged, other values as JSON.
std::string plain_text(const Json& leaf);

// Returns the finite numbers of a row with their names in log.jsonl, without the step.
Measures numbers_of(const Json& row);

// Returns system/memory_percent, system/memory_available_mb and system/process_memory_mb: the used share of
// the machine's memory, its available memory, and this process's memory. Empty if /proc does not tell.
Measures system_memory();

double seconds_since_1970();

}  // namespace ft
