// One trial: a short run of ft train in a process of its own, which ends when its speed is known, or is known
// to be too low.
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
  double seconds_per_step = 0;  // with as many tokens as steps have on average
  double noise = 0;             // relative standard error
};
// The median of the steps after the first, which also touches its memory for the first time. Two at least.
TrialSpeed speed_of(std::span<const TimedStep>);

enum class TrialVerdict : std::uint8_t { go_on, enough, behind };
// Whether these steps tell the speed; behind: even the fastest is clearly slower than `best`, 0: none.
TrialVerdict judge_trial(std::span<const TimedStep>, double best);

struct TrialOutcome {
  TrialSpeed speed;        // 0: it failed, or was interrupted
  std::int64_t steps = 0;  // that were timed
  bool behind = false, interrupted = false;
  int exit_code = 0;   // of one that failed
  std::string result;  // done, slower: stopped early, or its last words
};

// The settings of a trial: those of the run, without all that takes time beside the steps.
RunConfig trial_config(RunConfig, const std::string& folder);

// Runs it in `folder`, which is empty afterwards, and writes its words to folder.log. `says` gets what to
// show, a few times a second.
TrialOutcome run_trial(const RunConfig&, const std::string& folder, double best, const SignalQueue&,
                       const std::function<void(const std::string&)>& says);

}  // namespace ft
