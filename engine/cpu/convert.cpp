#include "engine/cpu/convert.h"

#include "engine/cpu/target.h"

namespace ft::cpu {

namespace avx2 {
extern const ConvertKernels convert_kernels;
}
namespace avx512 {
extern const ConvertKernels convert_kernels;
}

const ConvertKernels& best_convert_kernels() {
  static const ConvertKernels& best =
      best_target() == Target::avx2 ? avx2::convert_kernels : avx512::convert_kernels;
  return best;
}

}  // namespace ft::cpu
