// Flags of DeepSpeed's launcher that have no effect or that ft launch refuses. Each has its reason, or the
// command to type instead. The other flags are options of ft launch.
#pragma once
#include <span>
#include <string>
#include <vector>

namespace ft {

struct LauncherFlag {
  const char* names;  // "-q,--quiet"
  const char* type;   // name of its value; empty: it takes none
  bool refused;
  const char* why;
};
std::span<const LauncherFlag> launcher_flags();
// Returns the flag with this name, "--quiet" or "-q"; null: there is none.
const LauncherFlag* find_launcher_flag(const std::string& name);

// Prints the reason of each flag on stderr. Throws UserError (config) if a flag is refused.
void heed_launcher_flags(const std::vector<std::string>& typed);

// Throws UserError (config) if DeepSpeed would start the ranks of several machines with a program other than
// ssh. The message says how to start ft's ranks with that program.
void check_launcher(const std::string& launcher, int machines);

}  // namespace ft
