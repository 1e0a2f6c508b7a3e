// The memory of known GPUs, for planning without one.
#pragma once
#include <cstdint>
#include <string>

namespace ft {

// Bytes of a GPU. `text` is a name ("h200") or a size ("24GiB", "80GB"). UserError(Exit::config) for anything
// else, and where CUDA alone would fill it.
std::int64_t gpu_memory(const std::string& text);

}  // namespace ft
