#include "engine/cuda/gemm/one_pass.h"

#include <algorithm>
#include <limits>

#include "engine/cuda/kernels/products_wgmma.h"

namespace ft::cuda {
namespace {

constexpr int kHopper = 9;

// True if rows can be accessed by four elements at a time.
bool in_fours(const Tensor& t) {
  const std::int64_t size = size_of(t.dtype);
  return reinterpret_cast<std::uintptr_t>(t.data) % static_cast<std::uintptr_t>(4 * size) == 0 &&
         (t.rows() <= 1 || t.stride % 4 == 0);
}

}  // namespace

OnePassProducts::OnePassProducts(const Gpu& gpu, ProductKernels which)
    : stream_(gpu.stream()), blocks_(gpu.capability() == kHopper ? one_pass_blocks() : 0), which_(which) {}

// True if the kernel supports the call: all terms have the same layout, and rows of operands begin at
// addresses that the copying engine can reach.
bool OnePassProducts::fits(const Tensor& y, std::span<const Term* const> terms, const Tensor& c) const {
  if (blocks_ == 0 || terms.empty() || terms.size() > OnePass::kMostTerms) return false;
  const Term& first = *terms.front();
  const DType type = first.a.dtype;
  if (type == DType::f32 || (y.dtype != type && y.dtype != DType::f32)) return false;
  if (first.ta == Trans::yes && first.tb == Trans::yes) return false;
  const auto right = [&](const Term* t) {
    return t->a.dtype == type && t->ta == first.ta && t->tb == first.tb && !t->int8 && !t->fp8_rows &&
           mappable(t->a) && (t->four_bit || t->fp8 || (t->b.dtype == type && mappable(t->b)));
  };
  constexpr std::int64_t kMost = std::numeric_limits<int>::max() / 2;
  return std::all_of(terms.begin(), terms.end(), right) && in_fours(y) && (!c || in_fours(c)) &&
         y.rows() <= kMost && y.cols() <= kMost && first.depth() <= kMost;
}

// True if the kernel is faster than cuBLASLt, which takes a pass over y for each term, and one for a bias.
// cuBLASLt is as fast on an H200 for a single term without a bias. It is also better if y has few tiles,
// which leave multiprocessors idle: it has smaller tiles, and splits the depth. For a short sum fewer tiles
// suffice, because idling costs less than a pass.
bool OnePassProducts::gains(const Tensor& y, std::span<const Term* const> terms, const Tensor& c) const {
  const bool several = terms.size() > 1 || (c && c.shape.rank == 1);
  constexpr std::int64_t kShort = 2048;
  std::int64_t depth = 0;
  for (const Term* t : terms) depth += t->depth();
  return several && tiles_of(y.rows(), y.cols()) >= (depth <= kShort ? blocks_ / 4 : blocks_ * 3 / 4);
}

bool OnePassProducts::takes(const Tensor& y, std::span<const Term* const> terms, const Tensor& c) const {
  return which_ != ProductKernels::vendor && fits(y, terms, c) &&
         (which_ == ProductKernels::own || gains(y, terms, c));
}

void OnePassProducts::run(const Tensor& y, std::span<const Term> terms, float alpha, const Tensor& c,
                          bool every_row) const {
  const Term& first = terms.front();
  const bool a_down = first.ta == Trans::yes, b_down = first.tb == Trans::no;
  OnePass s{};
  for (const Term& t : terms)
    s.terms[s.count++] = {map_of(t.a, a_down ? kBoxRowsDown : kBoxRows),
                          map_of(t.b, b_down ? kBoxRowsDown : kBoxRows), static_cast<int>(t.depth())};
  s.y = view_of(y);
  s.c = view_of(c);
  s.every_row = c && every_row;
  s.alpha = alpha;
  one_pass(stream_, s, first.a.dtype, a_down, b_down, blocks_);
}

}  // namespace ft::cuda
