// ft doctor: is this machine, and are those of a hostfile, ready to train?
#pragma once
#include <string>
#include <vector>

#include "engine/core/error.h"

namespace ft {

struct DoctorArgs {
  std::string config;                  // whose output folder is looked at; empty: the current folder
  std::vector<std::string> overrides;  // of it
  std::string hostfile, include, exclude;
  int ssh_port = 0;
  bool json = false;
};
// Exit::done, or the code of the first thing that is wrong.
Exit doctor(const DoctorArgs&);

}  // namespace ft
