#include "engine/cuda/gemm/products.h"

#include <algorithm>
#include <array>

#include "engine/cuda/gemm/fp8_products.h"
#include "engine/cuda/kernels/narrow_grad.h"
#include "engine/cuda/kernels/products_wgmma.h"

namespace ft::cuda {
namespace {

constexpr std::size_t kMostTerms = 16;
constexpr std::int64_t kAlign = 8;  // elements: 16 bytes of bf16 or f16

std::int64_t padded(std::int64_t n) { return (n + kAlign - 1) / kAlign * kAlign; }

FourBitSource source_of(const FourBitMatrix& m, const float* map) {
  const auto floats = [](const Tensor& t) { return t ? t.as<float>() : nullptr; };
  const bool coded = m.form.has_coded_scales();
  return {.values = four_bit_values(m.form.book),
          .block = m.form.block,
          .codes = m.codes.as<std::uint8_t>(),
          .absmax = coded ? nullptr : floats(m.absmax),
          .absmax_codes = coded ? m.absmax.as<std::uint8_t>() : nullptr,
          .map = map,
          .nested_absmax = floats(m.nested_absmax),
          .nested_offset = floats(m.nested_offset),
          .cols = m.shape[1],
          .first_row = 0,
          .first_col = 0};
}

Fp8Source source_of(const Fp8Matrix& m) {
  return {.codes = m.codes.as<std::uint8_t>(),
          .scales = m.scales.as<float>(),
          .scale_cols = m.scheme.scale_cols(m.shape[1]),
          .row_bits = tile_bits(m.scheme.rows),
          .col_bits = tile_bits(m.scheme.cols),
          .cols = m.shape[1],
          .first_row = 0,
          .first_col = 0};
}

bool is_decoded(const Term& t) { return (t.four_bit || t.fp8) && !t.fp8_rows; }

}  // namespace

Products::Products(const Gpu& gpu, const Workspace& w, ProductKernels kernels, const std::string& tuning)
    : gpu_(gpu),
      stream_(gpu.stream()),
      capability_(gpu.capability()),
      kernels_(kernels),
      workspace_(w),
      one_pass_(gpu, kernels),
      gemm_(gpu, w.blas, w.blas_bytes, tuning) {}

// True if dy is large, the rows of dy, b and u can be read 16 bytes at a time, and a block's shared memory
// fits a multiprocessor of Hopper.
bool Products::in_one_read(const op::NarrowGrad& op) const {
  constexpr std::int64_t kLarge = std::int64_t{1} << 22;  // elements: below this, two products are not slower
  const std::int64_t m = op.dy.rows(), n = op.dy.cols(), r = op.b.cols();
  if (capability_ != 9 || kernels_ == ProductKernels::vendor || op.dy.dtype == DType::f32) return false;
  if (m * n < kLarge && kernels_ != ProductKernels::own) return false;
  const std::int64_t bytes = narrow_grad_floats(m, n, r) * static_cast<std::int64_t>(sizeof(float));
  return m > 0 && r <= NarrowGrads::kMost && n % kAlign == 0 && r % kAlign == 0 && mappable(op.dy) &&
         mappable(op.b) && mappable(op.u) && bytes <= workspace_.sums_bytes;
}

void Products::run(const op::NarrowGrad& op) {
  if (!in_one_read(op)) {
    const Term du[] = {op.of_du()}, db[] = {op.of_db()};
    run(op::Products{.y = op.du, .terms = du, .alpha = op.alpha});
    return run(op::Products{.y = op.db, .terms = db, .c = op.db});
  }
  narrow_grad(stream_, {view_of(op.du), view_of(op.db), view_of(op.dy), view_of(op.b), view_of(op.u),
                        op.alpha, reinterpret_cast<float*>(workspace_.sums)});
}

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
  const Terms sorted(order.data(), count);
  const std::int64_t columns = at_once(y.cols(), sorted);
  if (columns > 0 && one_pass_.takes(y, sorted, c))
    run_in_one_pass(op, sorted, columns);
  else
    run_one_by_one(op, sorted);
}

// Adds c last, unless it is y itself: in 16 bits y is rounded after each term, and an adapter's term would
// vanish next to a residual.
void Products::run_one_by_one(const op::Products& op, Terms terms) {
  const auto& [y, all, alpha, c] = op;
  const bool last = terms.size() > 1 && y.dtype != DType::f32 && c && c.data != y.data;
  Tensor sum;  // the tensor that the next term is added to
  if (!last) sum = c;
  if (sum && sum.shape.rank == 1) {
    broadcast_row(stream_, view_of(y), view_of(sum));
    sum = y;
  }
  for (const Term* t : terms) {
    multiply(y, *t, alpha, sum);
    sum = y;
  }
  if (last)
    add(stream_, view_of(y), c.shape.rank == 1 ? every_row(view_of(c), y.rows()) : view_of(c));
  else if (!sum)
    fill(stream_, view_of(y), 0);
  else if (sum.data != y.data)
    cast(stream_, view_of(y), view_of(sum));
}

// Number of columns of y to compute at a time, with room for decoded parts of all coded weights: a multiple
// of a tile's columns or of eight, in parts of about the same width. 0: there is no room for eight.
std::int64_t Products::at_once(std::int64_t columns, Terms terms) const {
  std::int64_t bytes = 0;  // for a column
  for (const Term* t : terms)
    if (is_decoded(*t)) bytes += padded(t->depth()) * size_of(t->a.dtype);
  if (bytes == 0) return columns;
  const std::int64_t room = workspace_.dense_bytes / bytes,
                     unit = room < kTileColumns ? kAlign : kTileColumns, most = room / unit * unit;
  if (padded(columns) <= room) return columns;
  if (most == 0) return 0;
  const auto ceil_div = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  return ceil_div(ceil_div(columns, ceil_div(columns, most)), unit) * unit;
}

void Products::run_in_one_pass(const op::Products& op, Terms terms, std::int64_t columns) {
  const auto& [y, all, alpha, c] = op;
  const Tensor added = c;
  const std::int64_t n = y.cols();
  for (std::int64_t begin = 0; begin < n; begin += columns) {
    const std::int64_t end = std::min(n, begin + columns);
    std::array<Term, kMostTerms> dense;
    std::byte* at = workspace_.dense;
    for (std::size_t i = 0; i < terms.size(); ++i) {
      const Term& t = *terms[i];
      const bool rows = t.tb == Trans::yes;
      const Tensor b = is_decoded(t) ? make_dense(t, begin, end, at)
                       : rows        ? t.b.slice(begin, end)
                                     : t.b.columns(begin, end);
      dense[i] = {t.a, t.ta, b, t.tb};
      if (is_decoded(t)) at += padded(t.depth()) * padded(end - begin) * size_of(t.a.dtype);
    }
    one_pass_.run(y.columns(begin, end), std::span(dense).first(terms.size()), alpha,
                  added ? added.columns(begin, end) : added, added.shape.rank == 1);
  }
}

void Products::run(const op::Hadamard& op) {
  const View y = view_of(op.y);
  if (op.w.four_bit) dequantize(stream_, y, source_of(op.w.four_bit, workspace_.map));
  if (op.w.fp8) dequantize(stream_, y, source_of(op.w.fp8));
  multiply_elements(stream_, y, view_of(op.x), op.w.coded() ? y : view_of(op.w.b), op.w.tb == Trans::yes);
}

void Products::multiply(Tensor y, const Term& t, float alpha, Tensor c) {
  require(!t.int8, "products: weights in 8 bits are computed on CPUs only");
  if (t.fp8_rows) return multiply_fp8(gpu_, gemm_, y, t, alpha, c, workspace_.dense, workspace_.dense_bytes);
  if (is_decoded(t)) return multiply_decoded(y, t, alpha, c);
  gemm_.run({y, t.a, t.ta == Trans::yes, t.b, t.tb == Trans::yes, c, alpha});
}

// Decodes rows [begin, end) of the matrix if it is transposed, else columns.
Tensor Products::make_dense(const Term& t, std::int64_t begin, std::int64_t end, std::byte* at) const {
  const bool rows = t.tb == Trans::yes;
  const std::int64_t k = t.depth(), part = end - begin;
  const Tensor dense =
      rows ? Tensor(at, t.a.dtype, {part, k}, padded(k)) : Tensor(at, t.a.dtype, {k, part}, padded(part));
  const auto decode = [&](auto source) {
    (rows ? source.first_row : source.first_col) = begin;
    dequantize(stream_, view_of(dense), source);
  };
  t.fp8 ? decode(source_of(t.fp8)) : decode(source_of(t.four_bit, workspace_.map));
  return dense;
}

// Computes columns [begin, end) of y at a time, for which it decodes these rows of the matrix (if transposed)
// or columns.
void Products::multiply_decoded(Tensor y, const Term& t, float alpha, Tensor c) {
  const Term* const only[] = {&t};
  const std::int64_t n = y.cols(), columns = at_once(n, only);
  require(columns > 0, "products: no room for eight rows or columns of a coded matrix");
  for (std::int64_t begin = 0; begin < n; begin += columns) {
    const std::int64_t end = std::min(n, begin + columns);
    gemm_.run({y.columns(begin, end), t.a, t.ta == Trans::yes, make_dense(t, begin, end, workspace_.dense),
               t.tb == Trans::yes, c ? c.columns(begin, end) : c, alpha});
  }
}

}  // namespace ft::cuda
