// How fast the machine of a plan is, as somebody says or as it is measured.
#pragma once
#include <string>

#include "app/config/config.h"

namespace ft {

struct Speeds {                        // a second; 0: unknown
  double read = 0, write = 0;          // bytes, from and to files
  double pcie = 0;                     // bytes between a GPU and the host's memory, each way
  double flops = 0;                    // of a rank
  std::string files_from, flops_from;  // who says so: measured here, given
};

struct GivenSpeeds {  // as somebody typed them; empty: not given
  std::string disk, pcie, flops;
  bool operator==(const GivenSpeeds&) const = default;
};

// "2GB/s", "800MB/s" in bytes a second; "1.5TFLOPS", "900GFLOPS" in FLOP a second. UserError(Exit::config)
// names the option.
double bytes_per_second(const std::string& option, const std::string& text);
double flops_per_second(const std::string& option, const std::string& text);

// What is not given is measured: the folders of the files, and this machine's arithmetic unless the plan is
// for a GPU that need not be here.
Speeds speeds_of(const RunConfig&, const GivenSpeeds&, bool here);

}  // namespace ft
