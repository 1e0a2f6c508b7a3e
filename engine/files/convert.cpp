#include "engine/files/convert.h"

#include <cstring>

#include "engine/core/require.h"
#include "engine/cpu/convert.h"

namespace ft {

void convert(void* to, DType to_type, const void* from, DType from_type, std::int64_t n) {
  require(is_weight_type(to_type) && is_weight_type(from_type), "not a type of weights");
  if (n == 0) return;
  if (to_type == from_type)
    std::memcpy(to, from, static_cast<std::size_t>(n * size_of(to_type)));
  else
    cpu::best_convert_kernels().convert(to, to_type, from, from_type, n);
}

std::int64_t find_nonfinite(const void* data, DType type, std::int64_t n) {
  require(is_weight_type(type), "not a type of weights");
  return cpu::best_convert_kernels().find_nonfinite(data, type, n);
}

}  // namespace ft
