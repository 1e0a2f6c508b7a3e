// Loads NVIDIA's libraries when a GPU is used, so that ft starts without them.
#pragma once
#include <string>

namespace ft::cuda {

inline constexpr const char* kCudnnLibrary = "libcudnn.so.9";

// Opens the library with that file name, in the system's places or CUDA's own; null if it is not found. It
// stays loaded.
void* open_library(const std::string& name);

}  // namespace ft::cuda
