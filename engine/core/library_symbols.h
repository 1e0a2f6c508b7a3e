// Functions of a library that is loaded when it is used, so that ft starts without it.
#pragma once
#include <dlfcn.h>

namespace ft {

// Looks up functions of a loaded library by their names.
class LibrarySymbols {
 public:
  explicit LibrarySymbols(void* library) : library_(library) {}
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

}  // namespace ft
