// The speeds of the machine of a plan, given by the user or measured.
#pragma once
#include <string>

#include "app/config/config.h"

namespace ft {

struct Speeds {                        // per second; 0: unknown
  double read = 0, write = 0;          // bytes from and to files
  double pcie = 0;                     // bytes between a GPU and host memory, each way
  double flops = 0;                    // FLOP of a rank
  std::string files_from, flops_from;  // source, as text: "measured here", "given"
};

struct GivenSpeeds {  // as the user typed them; empty: not given
  std::string disk, pcie, flops;
  bool operator==(const GivenSpeeds&) const = default;
};

// Parse "2GB/s", "800MB/s" into bytes per second, and "1.5TFLOPS", "900GFLOPS" into FLOP per second. Throw
// UserError (config) that names the option.
double bytes_per_second(const std::string& option, const std::string& text);
double flops_per_second(const std::string& option, const std::string& text);

// Measures the speeds that are not given: the offload folders, and this machine's arithmetic if the plan is
// for this machine (`here`).
Speeds speeds_of(const RunConfig&, const GivenSpeeds&, bool here);

}  // namespace ft
