#include "engine/ops/products.h"

#include "engine/ops/checks.h"

namespace ft::op {
namespace {

// Checks a matrix in 4 bits with its scales.
void check_four_bit(const FourBitMatrix& m) {
  require(m.shape.rank == 2 && is_four_bit_block(m.form.block), "products: not a matrix in 4-bit blocks");
  const std::int64_t n = m.shape.numel(), blocks = m.form.blocks(n);
  require(is_vector(m.codes, (n + 1) / 2, DType::u8), "products: not two 4-bit codes a byte");
  require(is_vector(m.absmax, blocks, m.form.has_coded_scales() ? DType::u8 : DType::f32),
          "products: not one absmax a block");
  require(
      !m.form.nested || (is_vector(m.nested_absmax, (blocks + kNestedBlock - 1) / kNestedBlock, DType::f32) &&
                         is_vector(m.nested_offset, 1, DType::f32)),
      "products: not the scales of 8-bit absmax");
}

// Checks a matrix in 8 bits with its scales.
void check_int8(const Int8Matrix& m) {
  require(m.shape.rank == 2, "products: not a matrix in 8 bits");
  const std::int64_t n = m.shape.numel();
  require(is_vector(m.codes, n, DType::u8), "products: not one 8-bit code an element");
  require(is_vector(m.scales, int8_blocks(n), DType::f32), "products: not one scale a block");
}

// Checks a matrix in FP8 with its scales.
void check_fp8(const Fp8Matrix& m) {
  require(m.shape.rank == 2 && is_fp8_scheme(m.scheme), "products: not a matrix in FP8");
  require(is_vector(m.codes, m.shape.numel(), DType::u8), "products: not one FP8 code an element");
  require(is_vector(m.scales, m.scheme.scales(m.shape[0], m.shape[1]), DType::f32),
          "products: not one scale a tile of a matrix in FP8");
}

}  // namespace

void Products::check() const {
  require(!terms.empty() && is_float(y), "products: no terms, or y is not f32, bf16 or f16");
  const DType type = terms[0].a.dtype;
  require(is_float(type), "products: operands are not f32, bf16 or f16");
  require(y.dtype == type || y.dtype == DType::f32, "products: y is neither f32 nor of the operands' type");
  for (const Term& t : terms) {
    require(t.a.dtype == type && (t.coded() ? !t.b : t.b.dtype == type), "products: operands differ in type");
    if (t.four_bit) check_four_bit(t.four_bit);
    if (t.int8) check_int8(t.int8);
    if (t.fp8) check_fp8(t.fp8);
    const bool rows_have_scales = t.fp8 ? t.fp8.scheme.cols == 0 : !t.coded();
    require(!t.fp8_rows || (rows_have_scales && t.ta == Trans::no && type == DType::bf16),
            "products: rows in FP8 are of bf16, and need a dense matrix, or one in FP8 with a scale for each "
            "row");
    require(int{!!t.four_bit} + int{!!t.int8} + int{!!t.fp8} <= 1, "products: a matrix in two codes");
    const bool ta = t.ta == Trans::yes, tb = t.tb == Trans::yes;
    require((ta ? t.a.cols() : t.a.rows()) == y.rows(), "products: op(a) has not the rows of y");
    require((tb ? t.b_rows() : t.b_cols()) == y.cols(), "products: op(b) has not the columns of y");
    require(t.depth() == (tb ? t.b_cols() : t.b_rows()),
            "products: op(a) and op(b) differ in the dimension that is summed");
  }
  if (!c) return;
  if (c.shape.rank == 1) {
    require(c.cols() == y.cols(), "products: the bias has not the columns of y");
    require(c.dtype == y.dtype || c.dtype == type, "products: the bias has another type");
  } else {
    require(alike(c, y), "products: c and y differ");
  }
}

void NarrowGrad::check() const {
  const Term terms[] = {of_du(), of_db()};
  Products{.y = du, .terms = std::span(terms).first(1)}.check();
  Products{.y = db, .terms = std::span(terms).last(1)}.check();
  require(du.dtype == dy.dtype, "narrow_grad: du is not of the operands' type");
}

void Hadamard::check() const {
  require(is_float(y) && (x.dtype == y.dtype || x.dtype == DType::f32) && same_size(x, y),
          "hadamard: x is not of y's size and type, or f32");
  const bool turned = w.tb == Trans::yes;
  require(!w.int8 && !(w.coded() && turned), "hadamard: W is in 8 bits, or the transpose of a coded matrix");
  require(w.coded() ? !w.b : w.b.dtype == y.dtype, "hadamard: W is not of y's type");
  if (w.four_bit) check_four_bit(w.four_bit);
  if (w.fp8) check_fp8(w.fp8);
  require((turned ? w.b_cols() : w.b_rows()) == y.rows() && (turned ? w.b_rows() : w.b_cols()) == y.cols(),
          "hadamard: W is not of y's size");
}

double NarrowGrad::flops() const { return 4.0 * double(dy.rows()) * double(dy.cols()) * double(b.cols()); }

double Products::flops() const {
  double sum = 0;
  for (const Term& t : terms) sum += 2.0 * double(y.rows()) * double(y.cols()) * double(t.depth());
  return sum;
}

void ColumnSums::check() const {
  require(is_float(x) && is_vector(y, x.cols(), DType::f32),
          "column_sums: y is not one f32 for every column");
}

}  // namespace ft::op
