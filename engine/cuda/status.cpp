#include "engine/cuda/status.h"

#include "engine/core/error.h"

namespace ft::cuda {

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // clears the error
  if (status == cudaErrorMemoryAllocation)
    throw UserError(Exit::memory,
                    str("the GPU does not have enough memory (", what,
                        "); use shorter or fewer sequences in a batch, bf16, quantization.load_in_4bit or "
                        "gradient_checkpointing (`ft plan` shows the memory of a run)"));
  throw UserError(Exit::hardware, str("CUDA failed in ", what, ": ", cudaGetErrorString(status)));
}

}  // namespace ft::cuda
