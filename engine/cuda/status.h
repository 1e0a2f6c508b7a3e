// What CUDA answers, as exceptions.
#pragma once
#include <cuda_runtime.h>

namespace ft::cuda {

// UserError: Exit::memory when the GPU has no more memory, Exit::hardware for all else. `what` was tried; an
// earlier kernel may be to blame, for work is queued.
void check(cudaError_t status, const char* what);

}  // namespace ft::cuda
