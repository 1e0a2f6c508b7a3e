// Commands that write files, each with a command that mends its output after trouble.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/life/program.h"

namespace ft::test {

using Words = std::vector<std::string>;

constexpr const char* kAuto = "training.resume_from_checkpoint=auto";

// A command that writes.
struct Scene {
  const char* name;
  Words prepare;                     // a command before it; empty: none
  Words command;                     // the command that meets trouble
  Words again;                       // the command that mends
  std::vector<const char*> results;  // files that must be the same as without trouble

  bool trains() const { return again.back() == kAuto; }
};
inline std::ostream& operator<<(std::ostream& to, const Scene& scene) { return to << scene.name; }

// Returns the commands that meet kills, errors, signals and power cuts.
std::vector<Scene> scenes();
// Returns more layouts of files, for power cuts.
std::vector<Scene> scenes_of_layouts();

// Settings of the runs.
Json saving();

// Returns names that a killed command may leave and the next one removes.
std::vector<std::string> leftovers(const Workplace& w);

}  // namespace ft::test
