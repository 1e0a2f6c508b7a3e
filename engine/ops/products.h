// Matrix products, which take nine tenths of a step's time, and sums over rows.
#pragma once
#include <span>
#include <string_view>

#include "engine/ops/roles.h"
#include "engine/quant/four_bit.h"
#include "engine/quant/fp8.h"
#include "engine/quant/int8.h"

namespace ft {

enum class Trans : std::uint8_t { no, yes };

// A matrix of (rows, cols) in 4 bits, as four_bit.h describes.
struct FourBitMatrix {
  FourBitForm form;
  Shape shape;
  Tensor codes;          // u8, two elements per byte
  Tensor absmax;         // of each block: f32, or u8 if the form says so
  Tensor nested_absmax;  // if nested: f32, of each kNestedBlock of absmax
  Tensor nested_offset;  // if nested: (1) f32
  explicit operator bool() const { return static_cast<bool>(codes); }
};

// A matrix of (rows, cols) in 8 bits, as int8.h describes.
struct Int8Matrix {
  Shape shape;
  Tensor codes;   // signed numbers in u8
  Tensor scales;  // f32, of each block
  explicit operator bool() const { return static_cast<bool>(codes); }
};

// A matrix of (rows, cols) in FP8, as fp8.h describes. No code is NaN.
struct Fp8Matrix {
  Fp8Scheme scheme;
  Shape shape;
  Tensor codes;   // (rows * cols) u8: bits of e4m3
  Tensor scales;  // f32: (scale_rows * scale_cols), finite
  explicit operator bool() const { return static_cast<bool>(codes); }
};

// op(a) (m, k) times op(b) (k, n). op is the identity or the transpose of the matrix in memory. `four_bit`,
// `int8` or `fp8` replaces b, which is then empty; its elements are rounded once to the type of a.
struct Term {
  Tensor a = {};
  Trans ta = Trans::no;
  Tensor b = {};
  Trans tb = Trans::no;
  FourBitMatrix four_bit = {};
  std::string_view where = {};  // label (Ops::enter), for sums of several modules' terms
  Int8Matrix int8 = {};
  Fp8Matrix fp8 = {};
  // Multiplies in FP8, with the formulas of quant/fp8_rows.h: rows of a are quantized, and b, if it is dense.
  // a is bf16 and is not transposed; a matrix in FP8 has a scale for each of its rows, or one for all.
  bool fp8_rows = false;

  std::int64_t depth() const { return ta == Trans::yes ? a.rows() : a.cols(); }  // k
  bool coded() const { return four_bit || int8 || fp8; }
  std::int64_t b_rows() const { return coded() ? coded_shape()[0] : b.rows(); }
  std::int64_t b_cols() const { return coded() ? coded_shape()[1] : b.cols(); }

 private:
  const Shape& coded_shape() const { return four_bit ? four_bit.shape : int8 ? int8.shape : fp8.shape; }
};

namespace op {

// y (m, n) = alpha * sum of the terms + c. c may be empty; y itself, to accumulate; another (m, n) tensor, a
// residual; or (n), a bias added to every row. y may be f32 while the operands are not. c has y's type; a
// bias may have the operands' type. The sum, c included, is rounded once.
struct Products {
  static constexpr const char* kName = "products";
  Out y;
  std::span<const Term> terms;  // 1 to 16
  float alpha = 1;
  In c = Tensor{};

  void check() const;
  double flops() const;
  void operands(auto&& visit) const {
    visit("y", y);
    for (const Term& t : terms) {
      visit("a", In(t.a));
      visit("b", In(t.b));
      visit("codes", In(t.four_bit.codes));
      visit("absmax", In(t.four_bit.absmax));
      visit("nested_absmax", In(t.four_bit.nested_absmax));
      visit("int8_codes", In(t.int8.codes));
      visit("int8_scales", In(t.int8.scales));
      visit("fp8_codes", In(t.fp8.codes));
      visit("fp8_scales", In(t.fp8.scales));
    }
    visit("c", c);
  }
};

// The gradients for a narrow matrix b (n, r) next to a weight, which adds u (m, r) b^T to the result: du (m,
// r) = alpha dy (m, n) b, and db (n, r) += dy^T u. db may be f32 while the operands are not.
struct NarrowGrad {
  static constexpr const char* kName = "narrow_grad";
  Out du;
  Acc db;
  In dy, b, u;
  float alpha = 1;

  void check() const;
  double flops() const;
  Term of_du() const { return {dy, Trans::no, b, Trans::no}; }
  Term of_db() const { return {dy, Trans::yes, u, Trans::no}; }
  void operands(auto&& visit) const {
    visit("du", du);
    visit("db", db);
    visit("dy", dy);
    visit("b", b);
    visit("u", u);
  }
};

// y (m, n) = x * W element by element, rounded once (Hadamard's product). W is op(b) of a term without a: of
// y's type; or in 4 bits or FP8, rounded once to y's type, and not transposed. x is f32 or of y's type; y is
// no other operand.
struct Hadamard {
  static constexpr const char* kName = "hadamard";
  Out y;
  In x;
  Term w;

  void check() const;
  void operands(auto&& visit) const {
    visit("y", y);
    visit("x", x);
    visit("b", In(w.b));
    visit("codes", In(w.four_bit.codes));
    visit("absmax", In(w.four_bit.absmax));
    visit("nested_absmax", In(w.four_bit.nested_absmax));
    visit("fp8_codes", In(w.fp8.codes));
    visit("fp8_scales", In(w.fp8.scales));
  }
};

// y (n) f32 += the sums over the rows of x (m, n).
struct ColumnSums {
  static constexpr const char* kName = "column_sums";
  Acc y;
  In x;

  void check() const;
  void operands(auto&& visit) const {
    visit("y", y);
    visit("x", x);
  }
};

}  // namespace op
}  // namespace ft
