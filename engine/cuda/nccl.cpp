#include "engine/cuda/nccl.h"

#include <dlfcn.h>

#include <optional>
#include <type_traits>

#include "engine/cuda/library.h"

namespace ft::cuda {
namespace {

std::optional<Nccl> load() {
  void* library = open_library(kNcclLibrary);
  if (!library) return {};
  Nccl f{};
  bool whole = true;
  const auto find = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
    whole &= function != nullptr;
  };
  find(f.version, "ncclGetVersion");
  find(f.unique_id, "ncclGetUniqueId");
  find(f.init, "ncclCommInitRankConfig");
  find(f.split, "ncclCommSplit");
  find(f.finalize, "ncclCommFinalize");
  find(f.destroy, "ncclCommDestroy");
  find(f.abort, "ncclCommAbort");
  find(f.async_error, "ncclCommGetAsyncError");
  find(f.error_text, "ncclGetErrorString");
  find(f.last_error, "ncclGetLastError");
  find(f.all_gather, "ncclAllGather");
  find(f.reduce_scatter, "ncclReduceScatter");
  find(f.all_reduce, "ncclAllReduce");
  return whole ? std::optional(f) : std::nullopt;
}

}  // namespace

const Nccl* nccl() {
  static const std::optional<Nccl> functions = load();
  return functions ? &*functions : nullptr;
}

}  // namespace ft::cuda
