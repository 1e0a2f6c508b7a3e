#include "engine/ops/fake_quantize.h"

#include "engine/ops/checks.h"

namespace ft::op {

void FakeQuantize::check() const {
  require(is_float(y) && is_float(x) && same_size(y, x),
          "fake_quantize: y is not a float tensor of x's size");
  require(y.cols() % kBlockOfCodes == 0, "fake_quantize: rows are not whole blocks");
  require(y.data != x.data || y.dtype == x.dtype, "fake_quantize: in place y has x's type");
}

}  // namespace ft::op
