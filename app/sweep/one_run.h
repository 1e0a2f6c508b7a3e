// One training run of a sweep: a process of its own, with its configuration and its words in files beside its
// folder.
#pragma once
#include <functional>
#include <string>

#include "app/config/config.h"
#include "app/process/child.h"
#include "app/sweep/table.h"

namespace ft {

// Whether PATH.json is this configuration, from an earlier start.
bool is_as_before(const std::string& path, const RunConfig&);

struct RunEnd {
  int exit_code = 0;
  std::string last_line;
};
// Writes PATH.json and PATH.log. `stopped` becomes true where a signal ended it; `says` gets its last line, a
// few times a second. One that is as before goes on from its newest checkpoint.
RunEnd run_train(const std::string& path, const RunConfig&, const SignalQueue&, bool& stopped,
                 const std::function<void(const std::string&)>& says);

// What log.jsonl of a run's folder says: its losses, speed and memory. False where the run has not finished.
bool read_measured(const std::string& folder, SweepRow& row);

}  // namespace ft
