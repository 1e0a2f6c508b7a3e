// Names of code books in settings: bitsandbytes'.
#pragma once
#include "engine/core/words.h"
#include "engine/quant/four_bit.h"

namespace ft {

constexpr auto words(FourBitBook) {
  using enum FourBitBook;
  return to_words<FourBitBook>({{nf4, name_of(nf4)}, {fp4, name_of(fp4)}});
}

}  // namespace ft
