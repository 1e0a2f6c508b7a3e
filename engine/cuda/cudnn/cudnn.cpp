#include "engine/cuda/cudnn/cudnn.h"

#include <optional>

#include "engine/core/library_symbols.h"
#include "engine/cuda/library.h"

namespace ft::cuda {
namespace {

constexpr std::size_t kLeast = 90800;  // the first version that makes plans for a described device

std::optional<Cudnn> load() {
  void* library = open_library(kCudnnLibrary);
  if (!library) return {};
  Cudnn f{};
  LibrarySymbols symbols(library);
  symbols.find(f.version, "cudnnGetVersion");
  symbols.find(f.error_text, "cudnnGetErrorString");
  symbols.find(f.create_handle, "cudnnCreate");
  symbols.find(f.destroy_handle, "cudnnDestroy");
  symbols.find(f.set_stream, "cudnnSetStream");
  symbols.find(f.create, "cudnnBackendCreateDescriptor");
  symbols.find(f.destroy, "cudnnBackendDestroyDescriptor");
  symbols.find(f.set, "cudnnBackendSetAttribute");
  symbols.find(f.get, "cudnnBackendGetAttribute");
  symbols.find(f.finalize, "cudnnBackendFinalize");
  symbols.find(f.execute, "cudnnBackendExecute");
  return !symbols.missing() && f.version() >= kLeast ? std::optional(f) : std::nullopt;
}

}  // namespace

const Cudnn* cudnn() {
  static const std::optional<Cudnn> functions = load();
  return functions ? &*functions : nullptr;
}

}  // namespace ft::cuda
