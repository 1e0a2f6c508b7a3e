#include "engine/cuda/cudnn.h"

#include <dlfcn.h>

#include <optional>
#include <type_traits>

#include "engine/cuda/library.h"

namespace ft::cuda {
namespace {

constexpr std::size_t kLeast = 90800;  // the first that plans for a device that it is told of

std::optional<Cudnn> load() {
  void* library = open_library(kCudnnLibrary);
  if (!library) return {};
  Cudnn f{};
  bool whole = true;
  const auto find = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
    whole &= function != nullptr;
  };
  find(f.version, "cudnnGetVersion");
  find(f.error_text, "cudnnGetErrorString");
  find(f.create_handle, "cudnnCreate");
  find(f.destroy_handle, "cudnnDestroy");
  find(f.set_stream, "cudnnSetStream");
  find(f.create, "cudnnBackendCreateDescriptor");
  find(f.destroy, "cudnnBackendDestroyDescriptor");
  find(f.set, "cudnnBackendSetAttribute");
  find(f.get, "cudnnBackendGetAttribute");
  find(f.finalize, "cudnnBackendFinalize");
  find(f.execute, "cudnnBackendExecute");
  return whole && f.version() >= kLeast ? std::optional(f) : std::nullopt;
}

}  // namespace

const Cudnn* cudnn() {
  static const std::optional<Cudnn> functions = load();
  return functions ? &*functions : nullptr;
}

}  // namespace ft::cuda
