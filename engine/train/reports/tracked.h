// What trackers (W&B, MLflow, TensorBoard's hparams) show of a run: its settings, the numbers of its rows,
// and the memory of machine and process.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "engine/files/json.h"
#include "engine/train/reports/report.h"

namespace ft {

// The tree of settings (RunHeader::settings) as leaves with dotted names. A list, and an object whose keys
// are not plain names (a pattern, a dotted path), are leaves too.
std::vector<std::pair<std::string, Json>> flat_settings(const std::string& settings);
// A leaf as text: a text as it is, anything else as JSON.
std::string plain_text(const Json& leaf);

// The finite numbers of a row, by their names in log.jsonl; the step is not among them.
Measures numbers_of(const Json& row);

// system/memory_percent, system/memory_available_mb, system/process_memory_mb: the machine's memory in use,
// what is left of it, what this process holds. Empty where /proc does not say.
Measures system_memory();

double seconds_since_1970();

}  // namespace ft
