// A trial: a short run of ft train in a separate process. It ends when its speed is known, or is surely too
// low.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "app/config/config.h"
#include "app/process/child.h"

namespace ft {

struct TimedStep {
  double seconds = 0;
  std::int64_t tokens = 0;
};

struct TrialSpeed {
  double tokens_per_second = 0;
  double seconds_per_step = 0;  // at the steps' mean number of tokens
  double noise = 0;             // relative standard error
};
// Returns the median speed of at least two steps. Leaves out the first step, which touches memory for the
// first time.
TrialSpeed speed_of(std::span<const TimedStep>);

enum class TrialVerdict : std::uint8_t { go_on, enough, behind };
// Tells if these steps are enough to know the speed. `behind`: even the fastest step is clearly slower than
// `best` tokens/s (0: there is none).
TrialVerdict judge_trial(std::span<const TimedStep>, double best);

struct TrialOutcome {
  TrialSpeed speed;        // 0: the trial failed or was interrupted
  std::int64_t steps = 0;  // number of timed steps
  bool behind = false, interrupted = false;
  int exit_code = 0;   // exit code of a failed trial
  std::string result;  // done, slower: stopped early, or the trial's last line
};

// Returns the settings of a trial: the run's, without everything that takes time between the steps.
RunConfig trial_config(RunConfig, const std::string& folder);

// Runs the trial in `folder`, which is removed afterwards, and writes its output to folder.log. Calls `says`
// with the text to show, a few times per second.
TrialOutcome run_trial(const RunConfig&, const std::string& folder, double best, const SignalQueue&,
                       const std::function<void(const std::string&)>& says);

}  // namespace ft
