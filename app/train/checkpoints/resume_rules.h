// Rules for a run that resumes from a checkpoint: which settings may change, and the meaning of a change.
#pragma once
#include <cstdint>
#include <string_view>

namespace ft {

// free: does not change training. noted, warned: the run resumes and names the change. refused: the run would
// train another function or use another optimizer.
enum class OnResume : std::uint8_t { free, noted, warned, refused };

struct ResumeRule {
  std::string_view setting;  // a path; with "." or "[]." at its end, all paths that begin with it
  OnResume effect = OnResume::warned;
  std::string_view meaning = "";  // the consequence for the steps after the checkpoint
};

// Returns the rule of a setting, or null. Elements of lists have no numbers: data.datasets[].path.
const ResumeRule* find_resume_rule(std::string_view setting);

}  // namespace ft
