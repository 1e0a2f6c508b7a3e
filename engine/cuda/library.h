// NVIDIA's libraries, looked for when a GPU is used: ft starts where they are not installed.
#pragma once
#include <dlfcn.h>

#include <string>

namespace ft::cuda {

inline constexpr const char* kCudnnLibrary = "libcudnn.so.9";

// The library of that file name, from the system's places or CUDA's own; null when it is nowhere. It stays.
void* open_library(const std::string& name);

// Takes functions out of a library by their names.
class Symbols {
 public:
  explicit Symbols(void* library) : library_(library) {}
  template <class Function>
  void find(Function& function, const char* symbol) {
    function = reinterpret_cast<Function>(dlsym(library_, symbol));
    if (!function && !missing_) missing_ = symbol;
  }
  const char* missing() const { return missing_; }  // the first that it has not; null: it has all

 private:
  void* library_;
  const char* missing_ = nullptr;
};

}  // namespace ft::cuda
