// The part of NVIDIA's NCCL, 2.18 or later, that ft uses. It is declared here because some machines that
// build ft do not have its header; tests/engine/cuda/nccl_abi.cpp compares the two if the header exists. The
// library is loaded when several ranks have GPUs.
#pragma once
#include <cuda_runtime.h>

#include <climits>
#include <cstddef>

namespace ft::cuda {

inline constexpr const char* kNcclLibrary = "libnccl.so.2";

using NcclComm = struct ncclComm*;
struct NcclId {  // rank 0 makes it, all ranks need it
  char bytes[128];
};
enum class NcclResult : int { success = 0, invalid_usage = 5, remote_error = 6, in_progress = 7 };
enum class NcclType : int { u8 = 1, f16 = 6, f32 = 7, f64 = 8, bf16 = 9 };
enum class NcclOp : int { sum = 0 };
struct NcclConfig {
  static constexpr int kUsual = INT_MIN;
  std::size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21800;  // of this structure
  int blocking = kUsual, cga_cluster_size = kUsual, min_ctas = kUsual, max_ctas = kUsual;
  const char* net_name = nullptr;
  int split_share = kUsual;
};

struct Nccl {
  NcclResult (*version)(int*);  // 22809: 2.28.9
  NcclResult (*unique_id)(NcclId*);
  NcclResult (*init)(NcclComm*, int ranks, NcclId, int rank, NcclConfig*);
  NcclResult (*split)(NcclComm, int color, int key, NcclComm*, NcclConfig*);
  NcclResult (*finalize)(NcclComm);
  NcclResult (*destroy)(NcclComm);
  NcclResult (*abort)(NcclComm);
  NcclResult (*async_error)(NcclComm, NcclResult*);
  const char* (*error_text)(NcclResult);
  const char* (*last_error)(NcclComm);
  NcclResult (*all_gather)(const void* mine, void* all, std::size_t each, NcclType, NcclComm, cudaStream_t);
  NcclResult (*reduce_scatter)(const void* all, void* mine, std::size_t each, NcclType, NcclOp, NcclComm,
                               cudaStream_t);
  NcclResult (*all_reduce)(const void* from, void* to, std::size_t count, NcclType, NcclOp, NcclComm,
                           cudaStream_t);
  NcclResult (*send)(const void* from, std::size_t count, NcclType, int to, NcclComm, cudaStream_t);
  NcclResult (*receive)(void* to, std::size_t count, NcclType, int from, NcclComm, cudaStream_t);
  // Calls between these two begin together.
  NcclResult (*group_start)();
  NcclResult (*group_end)();
};

// Returns null if there is no NCCL, or an older one.
const Nccl* nccl();

}  // namespace ft::cuda
