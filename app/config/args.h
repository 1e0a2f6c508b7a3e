// The arguments of every command about a run.
#pragma once
#include <string>
#include <vector>

namespace ft {

// The configuration, and "a.b=c" that override it.
struct ConfigArgs {
  std::string config;
  std::vector<std::string> overrides;
};

}  // namespace ft
