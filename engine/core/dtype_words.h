// Names of element types in settings and files: torch's.
#pragma once
#include <array>

#include "engine/core/dtype.h"
#include "engine/core/words.h"

namespace ft {

// Names its return type, since name_of(f32) below looks for it before the function's end.
constexpr std::array<Word<DType>, 6> words(DType) {
  using enum DType;
  return to_words<DType>({{f32, name_of(f32)},
                          {bf16, name_of(bf16)},
                          {f16, name_of(f16)},
                          {f64, name_of(f64)},
                          {i32, name_of(i32)},
                          {u8, name_of(u8)}});
}

}  // namespace ft
