#include "engine/formats/int8.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "engine/core/require.h"
#include "engine/files/convert.h"
#include "engine/files/parallel.h"

namespace ft {
namespace {

constexpr std::int64_t kRun = 1 << 18;  // elements that a thread processes at once: a multiple of blocks

void quantize_block(std::int8_t* codes, float& scale, const float* x, std::int64_t n) {
  // Bits of absolute values are in the order of the values, and an integer maximum compiles to vector code.
  std::int32_t largest = 0;
  for (std::int64_t i = 0; i < n; ++i)
    largest = std::max(largest, std::bit_cast<std::int32_t>(x[i]) & std::int32_t{0x7fffffff});
  const auto absmax = std::bit_cast<float>(largest);
  require(std::isfinite(absmax), "quantize_int8: a value is not finite");
  scale = int8_scale(absmax);
  for (std::int64_t i = 0; i < n; ++i) codes[i] = int8_code(x[i], scale);
}

}  // namespace

Int8Data quantize_int8(std::int64_t elements, DType type, const ReadElements& read) {
  Int8Data q;
  q.codes.resize(static_cast<std::size_t>(elements));
  q.scales.resize(static_cast<std::size_t>(int8_blocks(elements)));
  in_parallel((elements + kRun - 1) / kRun, [&](std::int64_t piece) {
    const std::int64_t first = piece * kRun, count = std::min(kRun, elements - first);
    std::vector<std::byte> raw(static_cast<std::size_t>(count * size_of(type)));
    std::vector<float> x(static_cast<std::size_t>(count));
    read({raw.data(), type, {count}}, first);
    convert(reinterpret_cast<std::byte*>(x.data()), DType::f32, raw.data(), type, count);
    for (std::int64_t i = 0; i < count; i += kInt8Block)
      quantize_block(q.codes.data() + first + i, q.scales[static_cast<std::size_t>((first + i) / kInt8Block)],
                     x.data() + i, std::min(kInt8Block, count - i));
  });
  return q;
}

}  // namespace ft
