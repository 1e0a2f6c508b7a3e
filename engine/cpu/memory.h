// Memory of the CPU backend: pages from the operating system, large ones if it has them (weights and
// activations on 2 MB pages train about a fifth faster than on 4 KB pages).
#pragma once
#include "engine/core/arena.h"

namespace ft::cpu {

// Takes memory from the system, which makes it zero; the Buffer's destructor returns it. Throws UserError
// (memory) if the machine does not have that much.
Buffer reserve(std::int64_t bytes);

// Bytes that this process could take now without swapping and within the limits of its control groups; the
// largest number if the system does not say.
std::int64_t available_memory();

}  // namespace ft::cpu
