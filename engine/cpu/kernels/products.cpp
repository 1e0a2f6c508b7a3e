// Sums of matrix products; see products.h.
#include "engine/cpu/kernels/products.h"

#include "engine/cpu/kernels/tile.h"

namespace ft::cpu::FT_TARGET {
namespace {

template <class T>
double tile_out_of_cache(i64 repeats) {
  constexpr i64 kWords = 64;  // 16 KiB of b with AVX-512
  alignas(64) Word a[kTileRows * kWords] = {}, b[kWords * kTile] = {};
  Vec acc[kTileRows][kTileVectors];
  for (auto& row : acc)
    for (Vec& v : row) v = zero();
  for (i64 i = 0; i < repeats; ++i) {
    accumulate<T>(acc, reinterpret_cast<const std::byte*>(a), kWords * 4, b, kTile, kWords);
    asm volatile("" ::: "memory");  // the work is not to be optimised away
  }
  Vec total = zero();
  for (const auto& row : acc)
    for (const Vec v : row) total = total + v;
  return 2.0 * static_cast<double>(repeats * kTileRows * kTile * kWords * kPack<T>) + sum(total);
}

double tile_out_of_cache(DType operands, i64 repeats) {
  return operands == DType::bf16 ? tile_out_of_cache<bf16>(repeats) : tile_out_of_cache<float>(repeats);
}

}  // namespace

extern const ProductKernels product_kernels;
const ProductKernels product_kernels{tile_out_of_cache};

}  // namespace ft::cpu::FT_TARGET
