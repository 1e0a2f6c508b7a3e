// The memory of known GPUs, to plan without having one.
#pragma once
#include <cstdint>
#include <string>

namespace ft {

// Returns a GPU's memory in bytes. `text` is a name ("h200") or a size ("24GiB", "80GB"). Throws UserError
// (config) for other texts, and for a size that CUDA alone would fill.
std::int64_t gpu_memory(const std::string& text);

}  // namespace ft
