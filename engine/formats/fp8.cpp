#include "engine/formats/fp8.h"

#include <algorithm>
#include <array>
#include <memory>

#include "engine/core/require.h"
#include "engine/cpu/quantize.h"
#include "engine/files/parallel.h"

namespace ft {
namespace {

constexpr std::int64_t kElementsAtOnce = std::int64_t{1}
                                         << 18;  // elements that a thread processes at once, about

}  // namespace

Fp8Data quantize_fp8(std::int64_t rows, std::int64_t cols, DType type, Fp8Scheme scheme,
                     const ReadElements& read) {
  require(scheme == kFp8Channels || scheme == kFp8Blocks, "quantize_fp8: a scheme that is only read");
  Fp8Data q{.scheme = scheme, .rows = rows, .cols = cols, .codes = {}, .scales = {}};
  q.codes.resize(static_cast<std::size_t>(rows * cols));
  q.scales.resize(static_cast<std::size_t>(scheme.scales(rows, cols)));
  const auto run = cpu::best_quantize_kernels().fp8;
  // Rows of a band: complete tiles.
  const std::int64_t band =
      std::max<std::int64_t>(1, kElementsAtOnce / std::max<std::int64_t>(1, cols * scheme.rows)) *
      scheme.rows;
  const std::int64_t scale_cols = scheme.scale_cols(cols), width = scheme.cols == 0 ? cols : scheme.cols;
  in_parallel((rows + band - 1) / band, [&](std::int64_t piece) {
    const std::int64_t top = piece * band, count = std::min(band, rows - top);
    auto x =
        std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(count * cols * size_of(type)));
    read({x.get(), type, {count * cols}}, top * cols);
    for (std::int64_t r = 0; r < count; r += scheme.rows)
      for (std::int64_t c = 0; c < cols; c += width) {
        const std::int64_t first = r * cols + c;
        float& scale = q.scales[static_cast<std::size_t>((top + r) / scheme.rows * scale_cols + c / width)];
        require(run(q.codes.data() + top * cols + first, &scale, x.get() + first * size_of(type), type,
                    std::min(scheme.rows, count - r), std::min(width, cols - c), cols),
                "quantize_fp8: a value is not finite");
      }
  });
  return q;
}

void dequantize(std::span<float> y, const Fp8Data& q, std::int64_t first) {
  const auto count = static_cast<std::int64_t>(y.size());
  require(0 <= first && first + count <= q.rows * q.cols, "dequantize: elements that are not there");
  std::array<float, 256> values{};
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = to_float(e4m3{static_cast<std::uint8_t>(i)});
  const std::int64_t scale_cols = q.scheme.scale_cols(q.cols), end = first + count;
  const auto scale_of = [&](std::int64_t row, std::int64_t column) {
    const std::int64_t down = q.scheme.rows == 0 ? 0 : row / q.scheme.rows,
                       across = q.scheme.cols == 0 ? 0 : column / q.scheme.cols;
    return q.scales[static_cast<std::size_t>(down * scale_cols + across)];
  };
  in_parallel((count + kElementsAtOnce - 1) / kElementsAtOnce, [&](std::int64_t piece) {
    const std::int64_t stop = std::min(end, first + (piece + 1) * kElementsAtOnce);
    for (std::int64_t i = first + piece * kElementsAtOnce; i < stop;) {
      const std::int64_t row = i / q.cols, column = i - row * q.cols;
      const std::int64_t edge = q.scheme.cols == 0 ? q.cols : (column / q.scheme.cols + 1) * q.scheme.cols;
      const std::int64_t until = std::min(stop, row * q.cols + std::min(q.cols, edge));
      const float scale = scale_of(row, column);
      for (; i < until; ++i)
        y[static_cast<std::size_t>(i - first)] = values[q.codes[static_cast<std::size_t>(i)]] * scale;
    }
  });
}

}  // namespace ft
