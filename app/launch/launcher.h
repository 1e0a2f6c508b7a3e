// Runs the ranks of a job, here and through ssh, until all have ended.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "app/launch/hostfile.h"
#include "app/launch/local_ranks.h"
#include "app/launch/remote_ranks.h"

namespace ft {

struct Job {
  std::vector<Host> hosts;           // rank 0 is on the first
  std::vector<std::string> command;  // of ft
  int first = 0, size = 0;           // this launcher's first rank; of all ranks, on all machines
  std::string master;                // where rank 0 listens; empty: as the first host is called
  int port = 0;                      // 0: any free one
  std::string token;
  std::string log_dir;
  std::vector<std::pair<std::string, std::string>> environment;  // of every rank
  SshOptions ssh;
};

// Listens for the ranks. UserError(Exit::config) if `others`, ranks on other machines, could not reach it
// because the host is a loopback address here. One that is written as an address and `chosen` by the user is
// taken.
Socket listen_for_ranks(const std::string& host, int port, bool chosen, bool others);

// Copies what rank 0 writes to stdout to stdout as it is, and every other line of output to stderr, labelled
// with its rank. All output goes unlabelled to LOG_DIR/rank-N.log. The exit code is that of the first rank
// that failed by itself (128 plus the number of a signal). When one rank fails, the others are killed after
// 3 s.
Exit run_job(const Job&);

}  // namespace ft
