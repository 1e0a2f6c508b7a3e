// NCCL between GPUs of one process: ranks are threads, each with its own GPU. A collective runs when the
// streams of all ranks have reached it. Tests decide whether NCCL is installed and which fault occurs.
#pragma once
#include <string>

#include "engine/cuda/nccl/nccl.h"

namespace cuda_on_cpu {

struct NcclFault {
  int rank = -1;            // in the world communicator; -1: no fault
  std::uint64_t after = 0;  // number of its collectives before the fault
  bool stuck = false;       // the next collective never begins
  bool breaks = false;      // NCCL reports a lost peer
  bool no_start = false;    // the rank never joins NCCL's start
};
void nccl_fault(const NcclFault&);
void nccl_installed(bool);  // at first it is not
int nccl_aborted();         // communicators aborted so far
std::string nccl_nvls();    // NCCL_NVLS_ENABLE at the start of the last world communicator

}  // namespace cuda_on_cpu
