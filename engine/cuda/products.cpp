#include "engine/cuda/products.h"

#include <algorithm>
#include <array>

namespace ft::cuda {
namespace {

constexpr std::size_t kMostTerms = 16;

FourBitSource source_of(const FourBitMatrix& m, const float* map) {
  const auto floats = [](const Tensor& t) { return t ? t.as<float>() : nullptr; };
  const bool nested = m.form.nested;
  return {.values = four_bit_values(m.form.book),
          .block = m.form.block,
          .codes = m.codes.as<std::uint8_t>(),
          .absmax = nested ? nullptr : floats(m.absmax),
          .absmax_codes = nested ? m.absmax.as<std::uint8_t>() : nullptr,
          .map = map,
          .nested_absmax = floats(m.nested_absmax),
          .nested_offset = floats(m.nested_offset),
          .cols = m.shape[1],
          .first_row = 0,
          .first_col = 0};
}

}  // namespace

Products::Products(const Gpu& gpu, const Workspace& w, const std::string& tuning)
    : stream_(gpu.stream()), workspace_(w), gemm_(gpu, w.blas, w.blas_bytes, tuning) {}

void Products::run(const op::Products& op) {
  const auto& [y, terms, alpha, c] = op;
  require(terms.size() <= kMostTerms, "products: 1 to 16 terms");
  if (y.numel() == 0) return;
  std::array<const Term*, kMostTerms> order{};
  std::size_t count = 0;
  for (const Term& t : terms)
    if (t.depth() > 0) order[count++] = &t;
  std::stable_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count),
                   [](const Term* a, const Term* b) { return a->depth() < b->depth(); });
  Tensor sum = c;  // what the next term is added to
  if (c && c.shape.rank == 1) {
    broadcast_row(stream_, view_of(y), view_of(c));
    sum = y;
  }
  for (std::size_t i = 0; i < count; ++i) {
    multiply(y, *order[i], alpha, sum);
    sum = y;
  }
  if (!sum)
    fill(stream_, view_of(y), 0);
  else if (sum.data != y.data)
    cast(stream_, view_of(y), view_of(sum));
}

void Products::multiply(Tensor y, const Term& t, float alpha, Tensor c) {
  require(!t.int8, "products: weights in 8 bits are computed on CPUs only");
  if (t.four_bit) return multiply_four_bit(y, t, alpha, c);
  gemm_.run({y, t.a, t.ta == Trans::yes, t.b, t.tb == Trans::yes, c, alpha});
}

// Columns of y, [begin, end), need that many rows of the matrix (transposed) or columns of it. As many at a
// time as the workspace has room for, in parts of one size, with whole tiles of cuBLASLt's.
void Products::multiply_four_bit(Tensor y, const Term& t, float alpha, Tensor c) {
  constexpr std::int64_t kAlign = 8, kTile = 256;  // elements: 16 bytes of bf16 or f16; columns
  const auto up = [](std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; };
  const std::int64_t k = t.depth(), n = y.cols(), fits = workspace_.dense_bytes / size_of(t.a.dtype);
  const bool rows = t.tb == Trans::yes;  // of the (n, k) matrix; else columns of a (k, n) one
  const std::int64_t room = rows ? fits / up(k, kAlign) : fits / k / kAlign * kAlign;
  const std::int64_t most = room >= n ? n : room / kAlign * kAlign;
  require(most > 0, "products: no room for eight rows or columns of a matrix in 4 bits");
  const std::int64_t parts = (n + most - 1) / most, step = std::min(up((n + parts - 1) / parts, kTile), most);
  FourBitSource source = source_of(t.four_bit, workspace_.map);
  for (std::int64_t begin = 0; begin < n; begin += step) {
    const std::int64_t end = std::min(n, begin + step), part = end - begin;
    (rows ? source.first_row : source.first_col) = begin;
    const Tensor dense = rows ? Tensor(workspace_.dense, t.a.dtype, {part, k}, up(k, kAlign))
                              : Tensor(workspace_.dense, t.a.dtype, {k, part}, up(part, kAlign));
    dequantize(stream_, view_of(dense), source);
    gemm_.run(
        {y.columns(begin, end), t.a, t.ta == Trans::yes, dense, rows, c ? c.columns(begin, end) : c, alpha});
  }
}

}  // namespace ft::cuda
