// Ops on one NVIDIA GPU. A build without CUDA has absent.cpp instead.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "engine/ops/device.h"

namespace ft {

// Products of several terms, or with a bias, on Hopper: by ft's own kernel in one pass where that is faster
// (chosen) or wherever it can (own), or a pass of cuBLASLt for each (vendor). Others are cuBLASLt's.
enum class ProductKernels : std::uint8_t { chosen, own, vendor };

// Bytes that the GPU's Ops hold for their own use. Tests take little, so that every loop goes round.
struct CudaWorkspace {
  std::int64_t blas = std::int64_t{32} << 20;    // what NVIDIA recommends for Hopper
  std::int64_t dense = 0;                        // weights in 4 bits, made dense (Ops::reserve_dense)
  std::int64_t delta = std::int64_t{16} << 20;   // attention's gradient
  std::int64_t tiles = std::int64_t{4} << 20;    // attention's tiles
  std::int64_t staging = std::int64_t{8} << 20;  // on the host
  std::int64_t cache = std::int64_t{32} << 20;   // of the GPU's L2, for what blocks of attention share
  std::int64_t cudnn = 0;                        // 0: attention is ft's own
  ProductKernels products = ProductKernels::chosen;

  static constexpr std::int64_t kSmall = 9472;  // a flag, the map of nested scales, partial sums
  // Memory of the GPU, with each part a multiple of Arena::kAlign.
  constexpr std::int64_t total() const { return kSmall + blas + dense + delta + tiles + cudnn; }

  // CUDA holds about this much beside all that: its context, and the code of kernels. kLater of it are kernels
  // that it loads when they first run.
  static constexpr std::int64_t kDriver = std::int64_t{1} << 30, kLater = std::int64_t{256} << 20;

  // Enough for the gradient over 4096 rows in 32 heads.
  static constexpr std::int64_t kCudnn = std::int64_t{1120} << 20;
  static CudaWorkspace of(AttentionKernels attention) {
    CudaWorkspace w;
    if (attention == AttentionKernels::vendor) w.cudnn = kCudnn;
    return w;
  }
};

// UserError(Exit::hardware) when there is no such device, this build has no CUDA, or cuDNN is asked for and
// not there. gemm_tuning: the file of training.gemm_tuning (gemm_file.h), with its errors; empty: none.
std::unique_ptr<Ops> make_cuda_ops(int index, const CudaWorkspace& = {}, const std::string& gemm_tuning = {});

// Loads NVIDIA's libraries from `folder` or a folder below it, such as a Python environment, instead of the
// system's; for this process and those it starts. UserError(Exit::config) when they are not there or cannot
// be loaded, or when this build has no CUDA.
void use_cuda_libraries(const std::string& folder);

// "9.19.0" where this machine has cuDNN 9.8 or later and this ft can use it.
std::optional<std::string> cudnn_version();

// The version of CUDA that this ft was built with, "13.0"; nothing without it.
std::optional<std::string> cuda_version();

}  // namespace ft
