// Ops on one NVIDIA GPU. A build without CUDA has absent.cpp instead.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "engine/ops/device.h"

namespace ft {

// Kernels for sums of products on Hopper, of several terms or with a bias. chosen: ft's own kernel, in one
// pass, if that is faster; own: ft's kernel wherever it can; vendor: one pass of cuBLASLt per term. Other
// products always use cuBLASLt.
enum class ProductKernels : std::uint8_t { chosen, own, vendor };

// Bytes that the GPU's Ops hold for their own use. Tests use small values, so that every loop runs more than
// once.
struct CudaWorkspace {
  std::int64_t blas = std::int64_t{32} << 20;    // NVIDIA's recommendation for Hopper
  std::int64_t dense = 0;                        // decoded 4-bit weights (Ops::reserve_dense)
  std::int64_t delta = std::int64_t{16} << 20;   // attention's gradient
  std::int64_t tiles = std::int64_t{4} << 20;    // attention's tiles
  std::int64_t staging = std::int64_t{8} << 20;  // on the host
  std::int64_t cache = std::int64_t{32} << 20;   // of the GPU's L2, for data that blocks of attention share
  std::int64_t cudnn = 0;                        // 0: attention uses ft's kernels
  ProductKernels products = ProductKernels::chosen;
  bool fp8_rows = false;  // the GPU must have products with rows in FP8

  static constexpr std::int64_t kSmall = 9472;  // a flag, the map of nested scales, partial sums
  // Memory of the GPU, with each part a multiple of Arena::kAlign.
  constexpr std::int64_t total() const { return kSmall + blas + dense + delta + tiles + cudnn; }

  // Bytes that CUDA holds in addition, approximately: its context and the code of kernels. kLater of them are
  // for code that it loads when a kernel first runs.
  static constexpr std::int64_t kDriver = std::int64_t{1} << 30, kLater = std::int64_t{256} << 20;

  // Bytes of workspace that suffice for the gradient over 4096 rows in 32 heads.
  static constexpr std::int64_t kCudnn = std::int64_t{1120} << 20;
  static CudaWorkspace of(AttentionKernels attention) {
    CudaWorkspace w;
    if (attention == AttentionKernels::vendor) w.cudnn = kCudnn;
    return w;
  }
};

// Throws UserError (hardware) if there is no such device, this build has no CUDA, or cuDNN or products in FP8
// are requested but missing. gemm_tuning: path of the file of training.gemm_tuning (gemm_file.h), whose
// errors it also throws; empty: none.
std::unique_ptr<Ops> make_cuda_ops(int index, const CudaWorkspace& = {}, const std::string& gemm_tuning = {});

// Loads NVIDIA's libraries from `folder` or a folder below it, such as a Python environment, instead of the
// system's, for this process and its child processes. Throws UserError (config) if they are missing or cannot
// be loaded, or if this build has no CUDA.
void use_cuda_libraries(const std::string& folder);

// "9.19.0" if this machine has cuDNN 9.8 or later and this build can use it; else empty.
std::optional<std::string> cudnn_version();

// The version of CUDA that this build uses, "13.0"; empty without CUDA.
std::optional<std::string> cuda_version();

}  // namespace ft
