// ft launch: runs the ranks of a run as processes of this machine, or of the machines in a hostfile.
#pragma once
#include <string>
#include <vector>

#include "engine/core/error.h"
#include "engine/zero/config.h"

namespace ft {

struct LaunchArgs {
  int ranks = 0;  // on each machine; 0: as hostfile or configuration say
  int nodes = 0;  // number of machines; 0: all
  // `node_rank`: this machine's number, if the user starts ft launch on each machine; -1: the user does not.
  int node_rank = -1;
  std::string hostfile, include, exclude;  // see hostfile.h
  std::string master_addr;                 // address of rank 0; empty: chosen by ft
  int master_port = -1;                    // -1: any free one
  int ssh_port = 0;                        // 0: as ssh is configured
  bool no_ssh = false;                     // the user starts ft launch on each machine of the hostfile
  std::string launcher;                    // DeepSpeed's --launcher
  std::vector<std::string> others;         // flags of launcher_flags.h, as typed
  std::string log_dir;                     // empty: OUTPUT_DIR/ranks
  std::vector<std::string> command;        // train --config ...
};
// `output_dir` and `config` come from the command's configuration; `on_gpu`: its device is cuda.
Exit launch(const LaunchArgs&, const std::string& output_dir, const DistributedConfig& config, bool on_gpu);

}  // namespace ft
