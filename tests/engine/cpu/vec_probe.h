// The functions of vec.h and words.h that vec_test.cpp tests: a table for every target, like the kernels'
// table.
#pragma once
#include <cstdint>

#include "engine/core/dtype.h"

namespace ft::cpu {

struct VecProbe {
  std::int64_t lanes, pack_bf16;
  void (*exp2)(float* y, const float* x, std::int64_t n);
  void (*to_bf16)(bf16* y, const float* x, std::int64_t n);
  void (*to_f16)(f16* y, const float* x, std::int64_t n);
  void (*from_bf16)(float* y, const bf16* x, std::int64_t n);
  void (*from_f16)(float* y, const f16* x, std::int64_t n);
  float (*sum)(const float* x, std::int64_t n);
  float (*largest)(const float* x, std::int64_t n);
  void (*transpose)(std::uint32_t* y, std::int64_t ldy, const void* x, DType, std::int64_t ldx,
                    std::int64_t rows, std::int64_t cols);
  void (*interleave)(std::uint32_t* y, std::int64_t ldy, const void* x, DType, std::int64_t ldx,
                     std::int64_t rows, std::int64_t cols);
};

namespace avx2 {
const VecProbe& vec_probe();
}
namespace avx512 {
const VecProbe& vec_probe();
}
namespace avx512_bf16 {
const VecProbe& vec_probe();
}
namespace avx512_on_avx2 {
const VecProbe& vec_probe();
}
namespace avx512_bf16_on_avx2 {
const VecProbe& vec_probe();
}

}  // namespace ft::cpu
