// Flags of DeepSpeed's launcher that change nothing here, or that ft launch refuses: each says why, or what
// to type instead. The rest are options of ft launch.
#pragma once
#include <span>
#include <string>
#include <vector>

namespace ft {

struct LauncherFlag {
  const char* names;  // "-q,--quiet"
  const char* type;   // what its value is called; empty: it takes none
  bool refused;
  const char* why;
};
std::span<const LauncherFlag> launcher_flags();
// The one with this name, "--quiet" or "-q"; null: there is none.
const LauncherFlag* find_launcher_flag(const std::string& name);

// What each of these has to say, on stderr. UserError(Exit::config) for one that is refused.
void heed_launcher_flags(const std::vector<std::string>& typed);

// UserError(Exit::config) where DeepSpeed would start the ranks of `machines` machines with another program
// than ssh: says how to start ft's with it.
void check_launcher(const std::string& launcher, int machines);

}  // namespace ft
