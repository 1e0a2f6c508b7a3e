// Quantization-aware training: a matrix with the values that it has after it is stored in a few bits.
#pragma once
#include "engine/ops/roles.h"
#include "engine/quant/block_codes.h"

namespace ft::op {

// y = x encoded in blocks of quant/block_codes.h along its rows, decoded again and rounded to y's type; y may
// be x. The columns are whole blocks. A block with a NaN or an infinity becomes NaN.
struct FakeQuantize {
  static constexpr const char* kName = "fake_quantize";
  Out y;
  In x;
  BlockFormat format;

  void check() const;
  void operands(auto&& visit) const {
    visit("y", y);
    visit("x", x);
  }
};

}  // namespace ft::op
