// Rules of a run that goes on from a checkpoint: settings that may change, and the meaning of a change.
#pragma once
#include <cstdint>
#include <string_view>

namespace ft {

// free: changes nothing that is trained. noted, warned: the run goes on and names it. refused: another
// function is trained, or with another optimizer.
enum class OnResume : std::uint8_t { free, noted, warned, refused };

struct ResumeRule {
  std::string_view setting;  // a path, or with "." or "[]." at its end all that begins with it
  OnResume effect = OnResume::warned;
  std::string_view meaning = "";  // the consequence for the steps after the checkpoint
};

// The rule of a setting, elements of lists without numbers: data.datasets[].path. Null: there is none.
const ResumeRule* find_resume_rule(std::string_view setting);

}  // namespace ft
