// The arguments of every command about a run.
#pragma once
#include <string>
#include <vector>

namespace ft {

// The configuration, and "a.b=c" that override it.
struct ConfigArgs {
  std::string config;
  std::vector<std::string> overrides;
  std::string deepspeed;  // DeepSpeed's file; empty: as the configuration says

  // The overrides, and the file as one of them.
  std::vector<std::string> settings() const {
    std::vector<std::string> all = overrides;
    if (!deepspeed.empty()) all.push_back("deepspeed=" + deepspeed);
    return all;
  }
};

}  // namespace ft
