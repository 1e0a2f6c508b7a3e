// The memory of known GPUs, for planning without one.
#pragma once
#include <cstdint>
#include <string>

namespace ft {

// Bytes of a GPU that a run may take. `text` is a name ("h200") or a size ("24GiB", "80GB"); what CUDA itself
// holds is taken off both. UserError(Exit::config) for anything else.
std::int64_t gpu_memory(const std::string& text);

}  // namespace ft
