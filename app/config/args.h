// The arguments of every command about a run.
#pragma once
#include <string>
#include <vector>

namespace ft {

// A configuration file, and overrides of the form "a.b=c".
struct ConfigArgs {
  std::string config;
  std::vector<std::string> overrides;
  std::string deepspeed;  // path of DeepSpeed's file; empty: as the configuration says

  // Returns the overrides, with `deepspeed` as the last one.
  std::vector<std::string> settings() const {
    std::vector<std::string> all = overrides;
    if (!deepspeed.empty()) all.push_back("deepspeed=" + deepspeed);
    return all;
  }
};

}  // namespace ft
