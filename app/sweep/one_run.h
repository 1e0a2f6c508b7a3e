// A training run of a sweep in a separate process. Its configuration and its output are files beside its
// folder.
#pragma once
#include <functional>
#include <string>

#include "app/config/config.h"
#include "app/process/child.h"
#include "app/sweep/table.h"

namespace ft {

// True if PATH.json, from an earlier start, holds this configuration.
bool is_as_before(const std::string& path, const RunConfig&);

struct RunEnd {
  int exit_code = 0;
  std::string last_line;
};
// Trains; writes PATH.json and PATH.log. `stopped` becomes true if a signal ended the run. Calls `says` with
// its last line a few times per second. If is_as_before(), continues from the newest checkpoint.
RunEnd run_train(const std::string& path, const RunConfig&, const SignalQueue&, bool& stopped,
                 const std::function<void(const std::string&)>& says);

// Reads losses, speed and memory from log.jsonl of a run's folder. Returns false if the run has not finished.
bool read_measured(const std::string& folder, SweepRow& row);

}  // namespace ft
