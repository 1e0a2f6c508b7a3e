#include "engine/cuda/nccl/nccl.h"

#include <optional>

#include "engine/core/library_symbols.h"
#include "engine/cuda/library.h"

namespace ft::cuda {
namespace {

std::optional<Nccl> load() {
  void* library = open_library(kNcclLibrary);
  if (!library) return {};
  Nccl f{};
  LibrarySymbols symbols(library);
  symbols.find(f.version, "ncclGetVersion");
  symbols.find(f.unique_id, "ncclGetUniqueId");
  symbols.find(f.init, "ncclCommInitRankConfig");
  symbols.find(f.split, "ncclCommSplit");
  symbols.find(f.finalize, "ncclCommFinalize");
  symbols.find(f.destroy, "ncclCommDestroy");
  symbols.find(f.abort, "ncclCommAbort");
  symbols.find(f.async_error, "ncclCommGetAsyncError");
  symbols.find(f.error_text, "ncclGetErrorString");
  symbols.find(f.last_error, "ncclGetLastError");
  symbols.find(f.all_gather, "ncclAllGather");
  symbols.find(f.reduce_scatter, "ncclReduceScatter");
  symbols.find(f.all_reduce, "ncclAllReduce");
  symbols.find(f.send, "ncclSend");
  symbols.find(f.receive, "ncclRecv");
  symbols.find(f.group_start, "ncclGroupStart");
  symbols.find(f.group_end, "ncclGroupEnd");
  return !symbols.missing() ? std::optional(f) : std::nullopt;
}

}  // namespace

const Nccl* nccl() {
  static const std::optional<Nccl> functions = load();
  return functions ? &*functions : nullptr;
}

}  // namespace ft::cuda
