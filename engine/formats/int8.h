// Quantizes matrices on the host. The formulas are in engine/quant/int8.h.
#pragma once
#include <vector>

#include "engine/formats/four_bit.h"
#include "engine/quant/int8.h"

namespace ft {

struct Int8Data {
  std::vector<std::int8_t> codes;
  std::vector<float> scales;
};

// Quantizes `elements` finite values of `type` that `read` provides; throws InternalError if one is not
// finite. Uses several threads.
Int8Data quantize_int8(std::int64_t elements, DType type, const ReadElements& read);

}  // namespace ft
