// ft launch: the ranks of a run as processes of this machine, or of those in a hostfile.
#pragma once
#include <string>
#include <vector>

#include "engine/core/error.h"
#include "engine/zero/config.h"

namespace ft {

struct LaunchArgs {
  int ranks = 0;       // on each machine; 0: as hostfile or configuration say
  int nodes = 0;       // machines; 0: all there are
  int node_rank = -1;  // which one this is, of several started by hand; -1: not so started
  std::string hostfile, include, exclude;  // hostfile.h
  std::string master_addr;                 // where rank 0 listens; empty: found
  int master_port = -1;                    // -1: any free one
  int ssh_port = 0;                        // 0: as ssh is configured
  bool no_ssh = false;                     // ft launch is started on each machine of the hostfile
  std::string launcher;                    // DeepSpeed's --launcher
  std::vector<std::string> others;         // of launcher_flags.h, as they were typed
  std::string log_dir;                     // empty: OUTPUT_DIR/ranks
  std::vector<std::string> command;        // train --config ...
};
// `output_dir` and `config` are those of the command's configuration; on_gpu: its device is cuda.
Exit launch(const LaunchArgs&, const std::string& output_dir, const DistributedConfig& config, bool on_gpu);

}  // namespace ft
