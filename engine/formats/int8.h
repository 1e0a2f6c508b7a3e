// Quantizes whole matrices on the host; the formulas are in engine/core/int8.h.
#pragma once
#include <vector>

#include "engine/core/int8.h"
#include "engine/formats/four_bit.h"

namespace ft {

struct Int8Data {
  std::vector<std::int8_t> codes;
  std::vector<float> scales;
};

// `elements` of the type that `read` brings, finite ones; InternalError otherwise. Uses several threads.
Int8Data quantize_int8(std::int64_t elements, DType type, const ReadElements& read);

}  // namespace ft
