#include "engine/cuda/gemm/tensor_maps.h"

#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>

#include "engine/core/error.h"
#include "engine/cuda/status.h"

namespace ft::cuda {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);
constexpr unsigned kSince = 12000;  // the version of CUDA that introduced it
constexpr std::int64_t kAlign = 8;  // elements: 16 bytes
constexpr cuuint32_t kBoxColumns = 64;

// Looks the driver's function up instead of linking it, so that ft starts without a driver.
Encode encode() {
  static const Encode function = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, kSince, cudaEnableDefault,
                                           &result),
          "looking for the driver's tensor maps");
    if (result != cudaDriverEntryPointSuccess || !found)
      throw UserError(Exit::hardware, "device cuda: NVIDIA's driver has no tensor maps; install a newer one");
    return reinterpret_cast<Encode>(found);
  }();
  return function;
}

}  // namespace

bool mappable(const Tensor& t) {
  return reinterpret_cast<std::uintptr_t>(t.data) % 16 == 0 && (t.rows() <= 1 || t.stride % kAlign == 0);
}

TensorMap map_of(const Tensor& t, int rows) {
  const std::int64_t stride = t.rows() > 1 ? t.stride : (t.cols() + kAlign - 1) / kAlign * kAlign;
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(t.cols()), static_cast<cuuint64_t>(t.rows())};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(stride * size_of(t.dtype))};
  const cuuint32_t box[] = {kBoxColumns, static_cast<cuuint32_t>(rows)}, every[] = {1, 1};
  CUtensorMap map;
  const CUresult status = encode()(
      &map, t.dtype == DType::bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2,
      t.data, sizes, strides, box, every, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS)
    throw UserError(Exit::hardware, str("CUDA failed in making a tensor map of ", t.rows(), " x ", t.cols(),
                                        " in rows of ", stride, ": status ", static_cast<int>(status)));
  TensorMap made;
  static_assert(sizeof made == sizeof map);
  std::copy_n(map.opaque, 16, made.opaque);
  return made;
}

}  // namespace ft::cuda
