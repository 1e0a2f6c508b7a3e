#include "engine/cuda/gemm/fp8_products.h"

#include <algorithm>

#include "engine/core/error.h"
#include "engine/cuda/kernels/fp8_rows.h"
#include "engine/cuda/kernels/kernels.h"
#include "engine/ops/fp8_room.h"

namespace ft::cuda {
namespace {

// A dense matrix in FP8, at its places of the room.
Fp8Matrix quantized(cudaStream_t stream, const Tensor& matrix, const Fp8Room& parts, std::byte* room) {
  const std::int64_t rows = matrix.rows(), cols = matrix.cols();
  const Fp8Matrix made{kFp8Channels,
                       {rows, cols},
                       Tensor(room + parts.matrix, DType::u8, {rows * cols}),
                       Tensor(room + parts.channels, DType::f32, {rows})};
  quantize_rows(stream, {.x = view_of(matrix),
                         .factors = nullptr,
                         .of_matrix = true,
                         .codes = made.codes.as<std::uint8_t>(),
                         .scales = made.scales.as<float>()});
  return made;
}

// One scale for all of the matrix's rows, once for each row.
const float* spread(cudaStream_t stream, float* to, const Fp8Matrix& m) {
  const View column{to, DType::f32, m.shape[0], 1, 1};
  broadcast_row(stream, column, view_of(m.scales));
  return to;
}

}  // namespace

void require_fp8_products(const Gpu& gpu) {
  if (gpu.capability() != 9)
    throw UserError(
        Exit::hardware,
        str("training.fp8: products in FP8 with a scale for each row need a GPU of compute capability "
            "9.0 (Hopper), and this one has ",
            gpu.capability(), ".x; set training.fp8=false"));
}

// Sums of the forward pass are fast: Hopper's tensor cores then add in about 14 bits, which costs less than
// the rounding to codes. Gradients have sums of full f32, as in torchao, because their errors add up over the
// blocks and cancel less.
void multiply_fp8(const Gpu& gpu, Gemm& gemm, const Tensor& y, const Term& t, float alpha, const Tensor& c,
                  std::byte* room, std::int64_t bytes) {
  require_fp8_products(gpu);
  const std::int64_t depth = t.depth(), out = t.b_rows(), in = t.b_cols();
  if (out % kFp8Unit != 0 || in % kFp8Unit != 0)
    throw UserError(Exit::hardware,
                    str("training.fp8: products in FP8 of this GPU need sizes that are multiples of ",
                        kFp8Unit, ", and a weight is ", out, " x ", in, "; set training.fp8=false"));
  const Fp8Room parts(t);
  require(parts.bytes <= bytes, "products: no room for rows in FP8");
  const cudaStream_t stream = gpu.stream();
  const auto bytes_at = [&](std::int64_t at) { return reinterpret_cast<std::uint8_t*>(room + at); };
  const auto floats_at = [&](std::int64_t at) { return reinterpret_cast<float*>(room + at); };
  const Fp8Matrix m = t.fp8 ? t.fp8 : quantized(stream, t.b, parts, room);
  require(reinterpret_cast<std::uintptr_t>(m.codes.data) % kFp8Unit == 0,
          "products: codes in FP8 are not aligned");
  const bool forward = t.tb == Trans::yes;
  const float* scales = m.scales.as<float>();
  if (m.scheme.rows == 0) scales = spread(stream, floats_at(parts.channels), m);
  const std::uint8_t* codes = m.codes.as<std::uint8_t>();
  if (!forward) {
    transpose_bytes(stream, bytes_at(parts.turned), codes, out, in);
    codes = bytes_at(parts.turned);
    fill(stream, {floats_at(parts.ones), DType::f32, 1, in, in}, 1);
  }
  const Tensor b(reinterpret_cast<std::byte*>(const_cast<std::uint8_t*>(codes)), DType::u8,
                 {y.cols(), depth});
  for (std::int64_t begin = 0; begin < y.rows(); begin += parts.rows) {
    const std::int64_t end = std::min(y.rows(), begin + parts.rows);
    quantize_rows(stream, {.x = view_of(t.a.slice(begin, end)),
                           .factors = forward ? nullptr : scales,
                           .of_matrix = false,
                           .codes = bytes_at(parts.codes),
                           .scales = floats_at(parts.scales)});
    const Tensor a(room + parts.codes, DType::u8, {end - begin, depth});
    gemm.run({.y = y.slice(begin, end),
              .a = a,
              .transpose_a = false,
              .b = b,
              .transpose_b = true,
              .c = c ? c.slice(begin, end) : c,
              .alpha = alpha,
              .a_scales = floats_at(parts.scales),
              .b_scales = forward ? scales : floats_at(parts.ones),
              .fast_sums = forward});
  }
}

}  // namespace ft::cuda
