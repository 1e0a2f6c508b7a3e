#include "engine/cpu/products.h"

#include <algorithm>
#include <array>

#include "engine/cpu/memory.h"
#include "engine/cpu/operands.h"

namespace ft::cpu {
namespace {

constexpr std::int64_t kOneDnnScratch = 64 << 20;  // for its copies of operands

// The coded form of a term's b.
union CodedOperand {
  FourBitOperand four_bit;
  Int8Operand int8;
  Fp8Operand fp8;
};

ProductTerm term_of(const Term& t, CodedOperand& coded) {
  const bool ta = t.ta == Trans::yes, tb = t.tb == Trans::yes;
  if (!t.coded()) return {t.a.data, t.a.stride, ta, t.b.data, t.b.stride, tb, t.depth()};
  ProductTerm term{t.a.data, t.a.stride, ta, nullptr, t.b_cols(), tb, t.depth()};
  if (t.four_bit)
    term.four_bit = &(coded.four_bit = operand_of(t.four_bit));
  else if (t.int8)
    term.int8 = &(coded.int8 = operand_of(t.int8));
  else
    term.fp8 = &(coded.fp8 = operand_of(t.fp8));
  return term;
}

// True if waking other threads would take longer than the work, some tens of microseconds of a core. The work
// is the multiply-adds plus, mostly with few rows, waiting for memory.
bool is_small(std::int64_t rows, std::int64_t cols, std::int64_t depth) {
  constexpr std::int64_t kSmall = 2'000'000, kElement = 16;  // in multiply-adds
  return rows * cols * depth + kElement * (rows * depth + depth * cols + rows * cols) < kSmall;
}

}  // namespace

Products::Products(const ProductKernels& kernels, Team& team, OneDnnTypes onednn, Sums sums)
    : kernels_(kernels),
      onednn_types_(onednn),
      team_(team),
      sums_(sums),
      workspace_bytes_(std::max(kernels.workspace_bytes(team.size()),
                                onednn.f32 || onednn.bf16 ? kOneDnnScratch : std::int64_t{0})),
      workspace_(reserve(workspace_bytes_)) {}

void Products::run(const op::Products& op) {
  const auto& [y, terms, alpha, c] = op;
  require(!terms.empty() && terms.size() <= kMostTerms, "products: 1 to 16 terms");
  const DType operands = terms[0].a.dtype;
  const std::int64_t rows = y.rows(), cols = y.cols();
  if (rows == 0 || cols == 0) return;
  std::array<ProductTerm, kMostTerms> list{};
  std::array<CodedOperand, kMostTerms> coded{};
  std::int64_t depth = 0;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    list[i] = term_of(terms[i], coded[i]);
    depth += list[i].k;
  }
  const std::int64_t ldc = !c || c.shape.rank == 1 ? 0 : c.stride;  // 0: a bias
  const int threads = is_small(rows, cols, depth) ? 1 : team_.size();
  const ProductCall call{.y = y.data,
                         .ldy = y.stride,
                         .y_type = y.dtype,
                         .rows = rows,
                         .cols = cols,
                         .terms = list.data(),
                         .count = static_cast<std::int64_t>(terms.size()),
                         .operands = operands,
                         .alpha = alpha,
                         .c = c.data,
                         .ldc = ldc,
                         .c_type = c.dtype,
                         .team = &team_,
                         .threads = threads,
                         .workspace = workspace_.get(),
                         .any_order = sums_ == Sums::in_any_order};
  if (onednn_types_.has(operands) && y.dtype != DType::f16) return run_with_onednn(call);
  kernels_.run(call);
}

// Runs large terms through oneDNN, one after another; y, rounded to its type, holds the sum in between. Small
// terms (adapters) would vanish next to c. So they come first, together with coded weights, in one pass of
// ft's kernel, and c comes last. If c is y it cannot come last: then ft's kernel computes the complete sum in
// f32.
void Products::run_with_onednn(const ProductCall& call) {
  constexpr std::int64_t kLeast = 64;  // smaller sizes do not fill matrix units
  const auto stays = [&](const ProductTerm& t) {
    return std::min({call.rows, call.cols, t.k}) < kLeast || t.four_bit || t.int8 || t.fp8;
  };
  std::array<ProductTerm, kMostTerms> terms{};  // the small terms, then the large ones
  const ProductTerm* const end = call.terms + call.count;
  const auto large = std::copy_if(call.terms, end, terms.begin(), stays);
  std::remove_copy_if(call.terms, end, large, stays);
  const std::int64_t small = large - terms.begin();
  if (small == call.count || (call.c == call.y && call.count > 1)) return kernels_.run(call);
  const auto part = [&](std::int64_t first, std::int64_t count) {
    ProductCall one = call;
    one.terms = &terms[static_cast<std::size_t>(first)];
    one.count = count;
    if (first + count < call.count) one.c = nullptr;
    return one;
  };
  for (std::int64_t i = small; i < call.count; ++i)
    if (!onednn_.can(part(i, 1), i > 0, workspace_bytes_)) return kernels_.run(call);
  if (small > 0) kernels_.run(part(0, small));
  for (std::int64_t i = small; i < call.count; ++i)
    require(onednn_.run(part(i, 1), i > 0, workspace_bytes_), "oneDNN can no longer do what it could");
}

}  // namespace ft::cpu
