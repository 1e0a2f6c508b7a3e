// Memory of the CPU backend: whole pages from the operating system, big ones where it has them (weights and
// activations on 2 MB pages train about a fifth faster than on 4 KB pages).
#pragma once
#include "engine/core/arena.h"

namespace ft::cpu {

// Not cleared by us, zero as the system gives it; given back when the Buffer ends. UserError(Exit::memory)
// when the machine does not have that much.
Buffer reserve(std::int64_t bytes);

// Bytes that this process could take now without swapping and within the limits of its control groups; the
// largest number when the system does not say.
std::int64_t available_memory();

}  // namespace ft::cpu
