#include "engine/cpu/quantize.h"

#include "engine/cpu/target.h"

namespace ft::cpu {

namespace avx2 {
extern const QuantizeKernels quantize_kernels;
}
namespace avx512 {
extern const QuantizeKernels quantize_kernels;
}

FourBitPlaces places_of(FourBitBook book) {
  const FourBitTable table = four_bit_table(book);
  const FourBitBounds bounds = four_bit_bounds(book);
  FourBitPlaces p{};
  for (int i = 0; i < 15; ++i) p.bounds[i] = bounds.of[i];
  p.zero = static_cast<std::uint8_t>(four_bit_place(bounds, 0));
  for (int i = 0; i < 256; ++i)
    p.pairs[i] = static_cast<std::uint8_t>(table.codes[i >> 4] << 4 | table.codes[i & 15]);
  for (int i = 0; i < 16; ++i) p.named |= table.codes[i] != i;
  return p;
}

const QuantizeKernels& quantize_kernels_of(Target t) {
  return t == Target::avx2 ? avx2::quantize_kernels : avx512::quantize_kernels;
}

const QuantizeKernels& best_quantize_kernels() { return quantize_kernels_of(best_target()); }

}  // namespace ft::cpu
