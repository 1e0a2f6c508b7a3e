#include "engine/ops/compressed.h"

#include "engine/core/divide.h"
#include "engine/ops/checks.h"

namespace ft::op {
namespace {

constexpr std::int64_t kBits = 8;  // signs in a byte

void check_blocks(const Tensor& x, const Tensor& codes, const Tensor& scales, int bits) {
  require(is_float(x) && x.cols() % kWireBlock == 0, "blocks on the wire: x is not float in whole blocks");
  require(bits == 4 || bits == 8, "blocks on the wire: there are 4 and 8 bits");
  require(codes.dtype == DType::u8 && codes.rows() == x.rows() && codes.cols() == x.cols() * bits / 8,
          "blocks on the wire: codes are not u8 of x's rows");
  require(scales.dtype == DType::f32 && scales.rows() == x.rows() && scales.cols() == x.cols() / kWireBlock,
          "blocks on the wire: scales are not one f32 for each block");
}

}  // namespace

void EncodeSigns::check() const {
  require(is_vector(x, x.numel(), DType::f32), "encode_signs: x is not dense f32");
  require(is_vector(bits, ceil_div(x.numel(), kBits), DType::u8),
          "encode_signs: bits are not one for each x");
  require(is_vector(scale, 1, DType::f32) && is_vector(squares, 1, DType::f64),
          "encode_signs: scale is not one f32, or squares not one f64");
  require(count >= 1, "encode_signs: x is a part of nothing");
}

void AddSigns::check() const {
  require(is_vector(y, y.numel(), DType::f32), "add_signs: y is not dense f32");
  require(bits.dtype == DType::u8 && bits.cols() == ceil_div(y.numel(), kBits),
          "add_signs: bits are not one for each y");
  require(scales.dtype == DType::f32 && scales.rows() == bits.rows() && scales.cols() == 1,
          "add_signs: scales are not one f32 for each row of bits");
}

void EncodeBlocks::check() const { check_blocks(x, codes, scales, bits); }
void DecodeBlocks::check() const { check_blocks(y, codes, scales, bits); }

}  // namespace ft::op
