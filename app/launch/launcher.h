// Runs the ranks of a job, on this machine and through ssh, until all have ended.
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
  std::vector<Host> hosts;           // rank 0 runs on the first host
  std::vector<std::string> command;  // arguments of ft
  int first = 0, size = 0;           // this launcher's first rank; number of all ranks
  std::string master;                // address of rank 0; empty: the first host's name
  int port = 0;                      // 0: any free one
  std::string token;
  std::string log_folder, log_names;  // rank N's log: LOG_FOLDER/LOG_NAMESrank-N.log
  std::vector<std::pair<std::string, std::string>> environment;  // variables of every rank
  SshOptions ssh;
};

// Opens the port at which rank 0 listens. Throws UserError (config) if `others`, ranks on other machines,
// could not reach it because `host` is a loopback address here. Accepts a loopback address that the user has
// `chosen`.
Socket listen_for_ranks(const std::string& host, int port, bool chosen, bool others);

// Copies rank 0's stdout unchanged to stdout, and every other output line to stderr after the rank's label.
// All output goes without labels to its log. Returns the exit code of the first rank that failed
// by itself (128 plus the signal's number if one killed it). When one rank fails, the others are killed after
// 3 s.
Exit run_job(const Job&);

}  // namespace ft
