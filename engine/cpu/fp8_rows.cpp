#include "engine/cpu/fp8_rows.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/cpu/memory.h"
#include "engine/cpu/quantize.h"
#include "engine/ops/fp8_room.h"
#include "engine/quant/fp8_rows.h"

namespace ft::cpu {
namespace {

constexpr float kScaleOfOne = 1;

// The matrix as a term's b: for a product that sums over its rows, with the scale 1.
Term term_of_values(const Tensor& values, const Term& t) {
  Term term{values, Trans::no, {}, t.tb};
  term.fp8 = t.fp8;
  if (t.tb == Trans::no) {
    term.fp8.scheme = kFp8Tensor;
    term.fp8.scales = Tensor(reinterpret_cast<std::byte*>(const_cast<float*>(&kScaleOfOne)), DType::f32, {1});
  }
  return term;
}

}  // namespace

Fp8RowProducts::Fp8RowProducts(Products& products, Team& team) : products_(products), team_(team) {}

bool Fp8RowProducts::has_rows(const op::Products& op) {
  return std::any_of(op.terms.begin(), op.terms.end(), [](const Term& t) { return t.fp8_rows; });
}

void Fp8RowProducts::reserve(std::int64_t bytes) {
  if (bytes <= bytes_) return;
  memory_ = {};
  memory_ = ft::cpu::reserve(bytes);
  bytes_ = bytes;
}

// values = s_i q_ij of the rows of x. Column j is multiplied by factors[step j] first; null: by 1.
void Fp8RowProducts::quantize(const Tensor& values, const Tensor& x, const float* factors,
                              std::int64_t step) const {
  const std::int64_t cols = x.cols();
  share_out(team_, x.rows(), false, [&](std::int64_t row, int) {
    const bf16* from = x.as<bf16>() + row * x.stride;
    float* to = values.as<float>() + row * cols;
    float amax = 0;
    for (std::int64_t j = 0; j < cols; ++j) {
      to[j] = to_float(from[j]);
      if (factors) to[j] *= factors[step * j];
      if (const float a = std::fabs(to[j]); a > amax) amax = a;
    }
    const float scale = fp8_scale(amax), inverse = fp8_inverse(scale);
    for (std::int64_t j = 0; j < cols; ++j) to[j] = to_float(fp8_row_code(to[j], inverse)) * scale;
  });
}

Fp8Matrix Fp8RowProducts::quantized(const Tensor& matrix, std::int64_t at) const {
  const std::int64_t rows = matrix.rows(), cols = matrix.cols(),
                     codes_bytes = round_up(rows * cols, Arena::kAlign);
  const Fp8Matrix made{kFp8Channels,
                       {rows, cols},
                       Tensor(memory_.get() + at, DType::u8, {rows * cols}),
                       Tensor(memory_.get() + at + codes_bytes, DType::f32, {rows})};
  share_out(team_, rows, false, [&](std::int64_t row, int) {
    best_quantize_kernels().fp8(made.codes.as<std::uint8_t>() + row * cols, made.scales.as<float>() + row,
                                matrix.as<bf16>() + row * matrix.stride, DType::bf16, 1, cols, cols);
  });
  return made;
}

void Fp8RowProducts::run(const op::Products& op) {
  const auto& [y, terms, alpha, c] = op;
  if (y.numel() == 0) return;
  require(terms.size() <= Products::kMostTerms, "products: 1 to 16 terms");
  std::array<Term, Products::kMostTerms> in_fp8, others, part;
  std::size_t left = 0, count = 0;
  std::int64_t depth = 0, matrices = 0;
  for (const Term& t : terms) {
    if (!t.fp8_rows) {
      others[count++] = t;
      continue;
    }
    depth = std::max(depth, t.depth());
    require(matrices + fp8_matrix_bytes(t) <= bytes_, "products: no room for a matrix in FP8");
    Term& kept = in_fp8[left++] = t;
    if (!t.fp8) kept.fp8 = quantized(t.b, matrices);
    matrices += fp8_matrix_bytes(t);
  }
  const std::int64_t room = (bytes_ - matrices) / fp8_row_bytes(depth, y.cols()),
                     most = std::min(room, kFp8CpuRows);
  require(most > 0, "products: no room for rows in FP8");
  for (std::int64_t begin = 0; begin < y.rows(); begin += most) {
    const std::int64_t end = std::min(y.rows(), begin + most);
    const Tensor sum(memory_.get() + matrices, DType::f32, {end - begin, y.cols()});
    Tensor added = !c || c.shape.rank == 1 ? Tensor(c) : c.slice(begin, end);
    for (std::size_t i = 0; i < count; ++i) {
      part[i] = others[i];
      part[i].a = part[i].ta == Trans::yes ? part[i].a.columns(begin, end) : part[i].a.slice(begin, end);
    }
    if (count > 0) {
      products_.run({sum, std::span(part).first(count), alpha, added});
      added = sum;
    }
    for (std::size_t i = 0; i < left; ++i) {
      const Term& t = in_fp8[i];
      const Tensor values(sum.data + sum.bytes(), DType::f32, {end - begin, t.depth()});
      quantize(values, t.a.slice(begin, end), t.tb == Trans::no ? t.fp8.scales.as<float>() : nullptr,
               t.fp8.scheme.rows);
      const Term term[] = {term_of_values(values, t)};
      products_.run({i + 1 == left ? y.slice(begin, end) : sum, term, alpha, added});
      added = sum;
    }
  }
}

}  // namespace ft::cpu
