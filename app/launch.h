// ft launch: the ranks of a run as processes of this machine.
#pragma once
#include <string>
#include <vector>

#include "engine/core/error.h"

namespace ft {

struct LaunchArgs {
  int ranks = 0;                     // 0: as the configuration says
  std::string log_dir;               // empty: OUTPUT_DIR/ranks
  std::vector<std::string> command;  // train --config ...
};
// `output_dir` and `configured` (ranks) are those of the command's configuration.
Exit launch(const LaunchArgs&, const std::string& output_dir, int configured);

}  // namespace ft
