#include "engine/ops/elementwise.h"

#include "engine/ops/checks.h"

namespace ft::op {
namespace {

void check_drop(const Drop& d, const Tensor& x) {
  require(0 <= d.p && d.p < 1, "dropout: p is not in [0, 1)");
  require(
      d.columns == 0 ? d.first_column == 0 : 0 <= d.first_column && d.first_column + x.cols() <= d.columns,
      "dropout: columns beyond those of the whole");
}

}  // namespace

void Fill::check() const { require(is_float(y), "fill: y is not f32, bf16 or f16"); }

void Add::check() const {
  require(is_float(y) && is_float(x), "add: y or x is not f32, bf16 or f16");
  require(same_size(y, x), "add: y and x differ in shape");
  check_drop(drop, y);
}

void Cast::check() const {
  require(is_float(y) && is_float(x), "cast: y or x is not f32, bf16 or f16");
  require(same_size(y, x), "cast: y and x differ in shape");
}

void Multiply::check() const { require(is_float(y) && alike(y, x), "multiply: y and x differ"); }

void SoftCap::check() const {
  require(is_float(y) && alike(y, x), "soft_cap: y and x differ");
  require(cap > 0, "soft_cap: the cap is not above 0");
}

void Dropout::check() const {
  require(is_float(y) && alike(y, x), "dropout: y and x differ");
  check_drop(drop(), x);
}

void Noise::check() const { require(is_float(y), "noise: y is not f32, bf16 or f16"); }

void Gated::check() const {
  require(is_float(y) && alike(y, gate) && (!up || alike(y, up)), "gated: y, gate and up differ");
  check_drop(drop, y);
}

void GatedGrad::check() const {
  require(is_float(dy) && alike(dy, gate) && (!up || alike(dy, up)), "gated: y, gate and up differ");
  require(alike(dgate, dy) && (dup ? up && alike(dup, dy) : !up), "gated_grad: dgate, dup and dy differ");
  check_drop(drop, dy);
}

namespace {

void check_pairs(const Tensor& y, const Tensor& x, float limit) {
  require(is_float(y) && y.dtype == x.dtype && x.rows() == y.rows() && x.cols() == 2 * y.cols() && limit > 0,
          "gated_pairs: x is not (rows, 2 F) of y's type");
}

}  // namespace

void GatedPairs::check() const { check_pairs(y, x, limit); }

void GatedPairsGrad::check() const {
  check_pairs(dy, x, limit);
  require(alike(dx, x), "gated_pairs_grad: dx and x differ");
}

}  // namespace ft::op
