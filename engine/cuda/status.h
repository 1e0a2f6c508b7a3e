// Turns CUDA's status codes into exceptions.
#pragma once
#include <cuda_runtime.h>

namespace ft::cuda {

// Throws UserError (memory) if the GPU has no more memory, UserError (hardware) for other errors. `what` was
// attempted; an earlier kernel may be the cause, because work is queued.
void check(cudaError_t status, const char* what);

}  // namespace ft::cuda
