// What ranks tell each other in few bits: signs with one magnitude, and numbers in blocks with a scale each.
// Codes (u8) and scales may be rows of a larger buffer of messages.
#pragma once
#include "engine/ops/roles.h"

namespace ft::op {

// scale (1) = sqrt(squares / count), where x (n) f32 is a part of `count` values with this sum of squares
// (f64, 1). Bit i % 8 of bits[i / 8], bits (ceil(n / 8)), is 1 where x[i] is not negative. x keeps what is
// lost: x -= scale where the bit is 1, else x += scale.
struct EncodeSigns {
  static constexpr const char* kName = "encode_signs";
  Out bits, scale;
  InOut x;
  In squares;
  double count;

  void check() const;
  void operands(auto&& visit) const {
    visit("bits", bits);
    visit("scale", scale);
    visit("x", x);
    visit("squares", squares);
  }
};

// y (n) f32 += factor (the sum over r, in order, of scales[r] where r's bit is 1 and -scales[r] where it is
// 0). bits: (R, ceil(n / 8)); scales: (R, 1).
struct AddSigns {
  static constexpr const char* kName = "add_signs";
  Acc y;
  In bits, scales;
  float factor;

  void check() const;
  void operands(auto&& visit) const {
    visit("y", y);
    visit("bits", bits);
    visit("scales", scales);
  }
};

inline constexpr std::int64_t kWireBlock = 256;  // elements with a scale in common

// Each kWireBlock elements of a row of x (R, n), f32 or bf16 or f16, have the scale max |x| / 127 in 8
// bits, or max |x| / 7 in 4, and each the code nearest to x / scale: in 8 bits a byte in two's complement;
// in 4 the code plus 8, the even element in the low half. An error is at most half the scale. codes: (R, n
// bits / 8); scales: (R, n / kWireBlock), f32. A block of zeros has the scale 0.
struct EncodeBlocks {
  static constexpr const char* kName = "encode_blocks";
  Out codes, scales;
  In x;
  int bits;

  void check() const;
  void operands(auto&& visit) const {
    visit("codes", codes);
    visit("scales", scales);
    visit("x", x);
  }
};

// y (R, n), f32 or bf16 or f16, = scale code, or with `adds` y += it.
struct DecodeBlocks {
  static constexpr const char* kName = "decode_blocks";
  InOut y;
  In codes, scales;
  int bits;
  bool adds = false;

  void check() const;
  void operands(auto&& visit) const {
    visit("y", y);
    visit("codes", codes);
    visit("scales", scales);
  }
};

}  // namespace ft::op
