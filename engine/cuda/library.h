// NVIDIA's libraries, looked for when a GPU is used: ft starts where they are not installed.
#pragma once
#include <string>

namespace ft::cuda {

inline constexpr const char* kCudnnLibrary = "libcudnn.so.9";

// The library of that file name, from the system's places or CUDA's own; null when it is nowhere. It stays.
void* open_library(const std::string& name);

}  // namespace ft::cuda
