#include "engine/cpu/products.h"

#include <algorithm>
#include <array>

#include "engine/cpu/memory.h"

namespace ft::cpu {
namespace {

constexpr std::size_t kMaxTerms = 16;
constexpr std::int64_t kOneDnnScratch = 64 << 20;  // for copies that it makes of operands

FourBitOperand operand_of(const FourBitMatrix& m) {
  const auto floats = [](const Tensor& t) { return t ? t.as<float>() : nullptr; };
  const bool nested = m.form.nested;
  return {four_bit_values(m.form.book),
          m.codes.as<std::uint8_t>(),
          m.form.block,
          nested ? nullptr : floats(m.absmax),
          nested ? m.absmax.as<std::uint8_t>() : nullptr,
          nested_map().data(),
          floats(m.nested_absmax),
          nested ? *floats(m.nested_offset) : 0};
}

Int8Operand operand_of(const Int8Matrix& m) {
  return {reinterpret_cast<const std::int8_t*>(m.codes.as<std::uint8_t>()), kInt8Block, m.scales.as<float>()};
}

// Where a term's b lies in few bits.
union CodedOperand {
  FourBitOperand four_bit;
  Int8Operand int8;
};

ProductTerm term_of(const Term& t, CodedOperand& coded) {
  const bool ta = t.ta == Trans::yes, tb = t.tb == Trans::yes;
  if (!t.coded()) return {t.a.data, t.a.stride, ta, t.b.data, t.b.stride, tb, t.depth()};
  ProductTerm term{t.a.data, t.a.stride, ta, nullptr, t.b_cols(), tb, t.depth()};
  if (t.four_bit)
    term.four_bit = &(coded.four_bit = operand_of(t.four_bit));
  else
    term.int8 = &(coded.int8 = operand_of(t.int8));
  return term;
}

// Whether waking other threads would take longer than the work, some tens of microseconds of a core: it
// multiplies, and with few rows it mostly waits for memory.
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
  require(!terms.empty() && terms.size() <= kMaxTerms, "products: 1 to 16 terms");
  const DType operands = terms[0].a.dtype;
  const std::int64_t rows = y.rows(), cols = y.cols();
  if (rows == 0 || cols == 0) return;
  std::array<ProductTerm, kMaxTerms> list{};
  std::array<CodedOperand, kMaxTerms> coded{};
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

// Large terms go through oneDNN one after another, then the others, adapters and coded weights, in one pass
// of ft's kernel. In between y holds the sum, rounded to its type, as in PyTorch.
void Products::run_with_onednn(ProductCall call) {
  constexpr std::int64_t kLeast = 64;  // smaller sizes do not fill matrix units
  std::array<ProductTerm, kMaxTerms> rest{};
  std::int64_t left = 0;
  for (std::int64_t i = 0; i < call.count; ++i) {
    const ProductTerm& term = call.terms[i];
    ProductCall one = call;
    one.terms = &term;
    one.count = 1;
    const bool large = std::min({call.rows, call.cols, term.k}) >= kLeast;
    if (large && !term.four_bit && !term.int8 && onednn_.run(one, workspace_bytes_)) {
      call.c = call.y;
      call.ldc = call.ldy;
      call.c_type = call.y_type;
    } else {
      rest[static_cast<std::size_t>(left++)] = term;
    }
  }
  call.terms = rest.data();
  call.count = left;
  if (left > 0) kernels_.run(call);
}

}  // namespace ft::cpu
