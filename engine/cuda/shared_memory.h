// Shared memory of a block beyond the 48 KiB that every kernel may have.
#pragma once
#include <cstddef>

namespace ft::cuda {

// Once for each kernel, GPU of this process and size: asking CUDA takes a microsecond, at every launch.
// Threads may ask at once. `what` is for the error, a UserError.
void allow_shared_memory(const void* kernel, std::size_t bytes, const char* what);

}  // namespace ft::cuda
