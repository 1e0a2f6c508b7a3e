// ft doctor: checks that this machine, or the machines of a hostfile, are ready to train.
#pragma once
#include <string>
#include <vector>

#include "engine/core/error.h"

namespace ft {

struct DoctorArgs {
  std::string config;                  // a run; its output folder is checked. Empty: the current folder
  std::vector<std::string> overrides;  // overrides of `config`
  std::string hostfile, include, exclude;
  int ssh_port = 0;
  bool json = false;
};
// Returns Exit::done, or the exit code of the first problem.
Exit doctor(const DoctorArgs&);

}  // namespace ft
