// Shared memory of a block beyond the 48 KiB that every kernel may use.
#pragma once
#include <cstddef>

namespace ft::cuda {

// Asks CUDA once for each kernel, GPU of this process and size: a question takes a microsecond, and this is
// called at every launch. Threads may call it at the same time. `what` is for the message of an error, which
// check() throws.
void allow_shared_memory(const void* kernel, std::size_t bytes, const char* what);

}  // namespace ft::cuda
