// NCCL between GPUs of one process: ranks are threads, each with a GPU of its own. A collective runs when all
// ranks' streams have reached it. Tests decide whether NCCL exists and what goes wrong.
#pragma once
#include <string>

#include "engine/cuda/nccl/nccl.h"

namespace cuda_on_cpu {

struct NcclFault {
  int rank = -1;            // of the whole world; -1: nothing goes wrong
  std::uint64_t after = 0;  // this many of its collectives
  bool stuck = false;       // the next one never begins
  bool breaks = false;      // NCCL says that a peer is lost
  bool no_start = false;    // it never comes to NCCL's start
};
void nccl_fault(const NcclFault&);
void nccl_installed(bool);  // at first it is not
int nccl_aborted();         // communicators, so far
std::string nccl_nvls();    // NCCL_NVLS_ENABLE, as it was when the last world began

}  // namespace cuda_on_cpu
