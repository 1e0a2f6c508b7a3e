// Parquet's RLE / bit-packed hybrid (Encodings.md): levels, dictionary indices and booleans of up to 32 bits,
// in runs of equal values and runs of bit-packed values.
#pragma once
#include <cstdint>

#include "data/files/columnar/bytes.h"

namespace ft::columnar {

// Returns `width` bits at `bit`, the lowest first; at most 64. Throws Damage if they reach beyond the end.
std::uint64_t bits_at(Bytes bytes, std::uint64_t bit, int width);

// Returns the number of bits that numbers from 0 to `largest` need.
int bits_for(std::uint64_t largest);

class Hybrid {
 public:
  Hybrid() = default;
  Hybrid(Bytes bytes, int width);

  // Returns the next value. Throws Damage at the end.
  std::uint32_t next() {
    while (left_ == 0) start_run();
    --left_;
    if (!packed_) return value_;
    bit_ += static_cast<std::uint64_t>(width_);
    return static_cast<std::uint32_t>(bits_at(run_, bit_ - static_cast<std::uint64_t>(width_), width_));
  }

 private:
  void start_run();

  Cursor in_{Bytes{}};
  int width_ = 0;
  bool packed_ = false;
  std::uint64_t left_ = 0;   // values left in the run
  std::uint32_t value_ = 0;  // value of a run of equal values
  Bytes run_{};              // bytes of a bit-packed run
  std::uint64_t bit_ = 0;
};

}  // namespace ft::columnar
