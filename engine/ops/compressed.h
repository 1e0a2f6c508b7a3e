// Compressed messages between ranks: signs with one magnitude, and blocks of numbers with a scale each. Codes
// (u8) and scales may be rows of a larger buffer of messages.
#pragma once
#include "engine/ops/roles.h"

namespace ft::op {

// scale (1) = sqrt(squares / count), where x (n) f32 is a part of `count` values with this sum of squares
// (f64, 1). Bit i % 8 of bits[i / 8], bits (ceil(n / 8)), is 1 if x[i] is not negative. x keeps the error: x
// -= scale if the bit is 1, else x += scale.
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

// y (n) f32 += factor times the sum over r, in order, of scales[r] if r's bit is 1, or -scales[r] if it is 0.
// bits: (R, ceil(n / 8)); scales: (R, 1).
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

inline constexpr std::int64_t kWireBlock = 256;  // elements that share a scale

// Encodes x (R, n), f32, bf16 or f16, in blocks of kWireBlock elements of a row. A block's scale is max |x| /
// 127 with 8 bits, or max |x| / 7 with 4; an element's code is the nearest integer to x / scale. With 8 bits
// a code is a byte in two's complement. With 4 it is the code plus 8, the even element in the low half of a
// byte. An error is at most half the scale. codes: (R, n bits / 8); scales: (R, n / kWireBlock), f32. A block
// of zeros has the scale 0.
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

// y (R, n), f32, bf16 or f16, = scale code; with `adds` y += scale code.
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
