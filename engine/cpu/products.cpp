// Ops::products on the CPU; see products.h.
#include "engine/cpu/products.h"

#include <algorithm>
#include <array>

#include "engine/cpu/memory.h"

namespace ft::cpu {
namespace {

constexpr std::size_t kMaxTerms = 16;
constexpr std::int64_t kOneDnnScratch = 64 << 20;  // for copies that it makes of operands

bool is_type(DType t) { return t == DType::f32 || t == DType::bf16 || t == DType::f16; }
bool is_operand(const Tensor& t, DType dtype) {
  return t.dtype == dtype && t.shape.rank >= 1 && t.stride >= t.cols();
}

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

ProductTerm checked(const Term& t, DType operands, std::int64_t rows, std::int64_t cols,
                    FourBitOperand& four_bit) {
  require(is_operand(t.a, operands) && (t.four_bit || is_operand(t.b, operands)),
          "products: operands f32, bf16 or f16, all alike");
  const bool ta = t.ta == Trans::yes, tb = t.tb == Trans::yes;
  const std::int64_t k = ta ? t.a.rows() : t.a.cols();
  require((ta ? t.a.cols() : t.a.rows()) == rows && (tb ? t.b_rows() : t.b_cols()) == cols &&
              (tb ? t.b_cols() : t.b_rows()) == k,
          "products: shapes that do not fit");
  if (!t.four_bit) return {t.a.data, t.a.stride, ta, t.b.data, t.b.stride, tb, k};
  four_bit = operand_of(t.four_bit);
  return {t.a.data, t.a.stride, ta, nullptr, t.b_cols(), tb, k, &four_bit};
}

// Whether waking other threads would take longer than the work, some tens of microseconds of a core: it
// multiplies, and with few rows it mostly waits for elements to come from memory.
bool is_small(std::int64_t rows, std::int64_t cols, std::int64_t depth) {
  constexpr std::int64_t kSmall = 2'000'000, kElement = 16;  // in multiply-adds
  return rows * cols * depth + kElement * (rows * depth + depth * cols + rows * cols) < kSmall;
}

}  // namespace

Products::Products(const ProductKernels& kernels, Team& team, OneDnnTypes onednn)
    : kernels_(kernels),
      onednn_types_(onednn),
      team_(team),
      workspace_bytes_(std::max(kernels.workspace_bytes(team.size()),
                                onednn.f32 || onednn.bf16 ? kOneDnnScratch : std::int64_t{0})),
      workspace_(reserve(workspace_bytes_)) {}

void Products::run(Tensor y, std::span<const Term> terms, float alpha, Tensor c) {
  require(!terms.empty() && terms.size() <= kMaxTerms, "products: 1 to 16 terms");
  const DType operands = terms[0].a.dtype;
  require(is_type(operands) && is_type(y.dtype), "products: operands and y f32, bf16 or f16");
  const std::int64_t rows = y.rows(), cols = y.cols();
  if (rows == 0 || cols == 0) return;
  std::array<ProductTerm, kMaxTerms> list{};
  std::array<FourBitOperand, kMaxTerms> four_bit{};
  for (std::size_t i = 0; i < terms.size(); ++i)
    list[i] = checked(terms[i], operands, rows, cols, four_bit[i]);

  std::int64_t ldc = 0;
  if (c) {
    const bool bias = c.shape.rank == 1;
    require(bias ? c.cols() == cols : c.rows() == rows && c.cols() == cols, "products: c of another shape");
    require(c.dtype == y.dtype || (bias && c.dtype == operands), "products: c of another dtype");
    ldc = bias ? 0 : c.stride;
  }
  std::int64_t depth = 0;
  for (std::size_t i = 0; i < terms.size(); ++i) depth += list[i].k;
  const int threads = is_small(rows, cols, depth) ? 1 : team_.size();
  const ProductCall call{
      y.data,          y.stride, y.dtype, rows, cols,    list.data(), static_cast<std::int64_t>(terms.size()),
      operands,        alpha,    c.data,  ldc,  c.dtype, &team_,      threads,
      workspace_.get()};
  if (onednn_types_.has(operands) && y.dtype != DType::f16) return run_with_onednn(call);
  kernels_.run(call);
}

// Large terms through oneDNN one after another, then the others, adapters and weights in 4 bits, in one
// pass of the own kernel. Between them the sum lies in y, rounded to its type, as in PyTorch.
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
    if (large && !term.four_bit && onednn_.run(one, workspace_bytes_)) {
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
