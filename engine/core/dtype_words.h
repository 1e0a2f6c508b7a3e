// Names of element types and of code books in settings and files: torch's and bitsandbytes'.
#pragma once
#include "engine/core/four_bit.h"
#include "engine/core/words.h"

namespace ft {

constexpr auto words(DType) {
  using enum DType;
  return to_words<DType>({{f32, name_of(f32)},
                          {bf16, name_of(bf16)},
                          {f16, name_of(f16)},
                          {f64, name_of(f64)},
                          {i32, name_of(i32)},
                          {u8, name_of(u8)}});
}

constexpr auto words(FourBitBook) {
  using enum FourBitBook;
  return to_words<FourBitBook>({{nf4, name_of(nf4)}, {fp4, name_of(fp4)}});
}

}  // namespace ft
