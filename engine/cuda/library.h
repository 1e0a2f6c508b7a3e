// Loads NVIDIA's libraries when a GPU is used, so that ft starts without them.
#pragma once
#include <dlfcn.h>

#include <string>

namespace ft::cuda {

inline constexpr const char* kCudnnLibrary = "libcudnn.so.9";

// Opens the library with that file name, in the system's places or CUDA's own; null if it is not found. It
// stays loaded.
void* open_library(const std::string& name);

// Looks up functions of a library by their names.
class Symbols {
 public:
  explicit Symbols(void* library) : library_(library) {}
  template <class Function>
  void find(Function& function, const char* symbol) {
    function = reinterpret_cast<Function>(dlsym(library_, symbol));
    if (!function && !missing_) missing_ = symbol;
  }
  const char* missing() const { return missing_; }  // the first function that it lacks; null: it has all

 private:
  void* library_;
  const char* missing_ = nullptr;
};

}  // namespace ft::cuda
