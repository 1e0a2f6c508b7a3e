#include "engine/cpu/fp8_rows.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/cpu/memory.h"
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

void Fp8RowProducts::run(const op::Products& op) {
  const auto& [y, terms, alpha, c] = op;
  if (y.numel() == 0) return;
  std::array<Term, 16> others;
  require(terms.size() <= others.size(), "products: 1 to 16 terms");
  std::int64_t depth = 0;
  for (const Term& t : terms)
    if (t.fp8_rows) depth = std::max(depth, t.depth());
  const std::int64_t room = bytes_ / fp8_row_bytes(depth, y.cols()), most = std::min(room, kFp8CpuRows);
  require(most > 0, "products: no room for rows in FP8");
  for (std::int64_t begin = 0; begin < y.rows(); begin += most) {
    const std::int64_t end = std::min(y.rows(), begin + most);
    const Tensor sum(memory_.get(), DType::f32, {end - begin, y.cols()});
    Tensor added = !c || c.shape.rank == 1 ? Tensor(c) : c.slice(begin, end);
    std::size_t count = 0, left = 0;
    for (const Term& t : terms)
      if (t.fp8_rows) {
        ++left;
      } else {
        others[count] = t;
        others[count].a = t.ta == Trans::yes ? t.a.columns(begin, end) : t.a.slice(begin, end);
        ++count;
      }
    if (count > 0) {
      products_.run({sum, std::span(others).first(count), alpha, added});
      added = sum;
    }
    for (const Term& t : terms) {
      if (!t.fp8_rows) continue;
      const Tensor values(sum.data + sum.bytes(), DType::f32, {end - begin, t.depth()});
      quantize(values, t.a.slice(begin, end), t.tb == Trans::no ? t.fp8.scales.as<float>() : nullptr,
               t.fp8.scheme.rows);
      const Term term[] = {term_of_values(values, t)};
      products_.run({--left == 0 ? y.slice(begin, end) : sum, term, alpha, added});
      added = sum;
    }
  }
}

}  // namespace ft::cpu
