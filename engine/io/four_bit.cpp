#include "engine/io/four_bit.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/error.h"
#include "engine/io/parallel.h"

namespace ft {
namespace {

constexpr std::int64_t kRunOfBlocks = 1
                                      << 18;  // elements of a thread at a time: whole blocks and whole bytes

// The largest absolute value; more than any float when one is not finite.
float largest(const float* x, std::int64_t n) {
  float most = 0;
  bool finite = true;
  for (std::int64_t i = 0; i < n; ++i) {
    const float a = std::fabs(x[i]);
    most = a > most ? a : most;
    finite = finite && a <= std::numeric_limits<float>::max();
  }
  return finite ? most : std::numeric_limits<float>::infinity();
}

void quantize_block(std::uint8_t* codes, float& absmax, const float* x, std::int64_t n,
                    const FourBitBounds& bounds, const FourBitTable& table) {
  absmax = largest(x, n);
  require(std::isfinite(absmax), "quantize: a value is not finite");
  const float scale = absmax > 0 ? 1 / absmax : 0;
  std::uint8_t places[4096];  // the largest block
  for (std::int64_t i = 0; i < n; ++i)
    places[i] = static_cast<std::uint8_t>(four_bit_place(bounds, x[i] * scale));
  for (std::int64_t i = 0; i < n; i += 2) {
    const int low = i + 1 < n ? places[i + 1] : four_bit_place(bounds, 0);
    codes[i / 2] = static_cast<std::uint8_t>(table.codes[places[i]] << 4 | table.codes[low]);
  }
}

float absmax_of(const FourBitData& q, std::int64_t block) {
  const auto b = static_cast<std::size_t>(block);
  if (!q.form.nested) return q.absmax[b];
  return nested_value(nested_map()[q.absmax_codes[b]], q.nested_absmax[b / kNestedBlock], q.nested_offset);
}

}  // namespace

FourBitData quantize(std::span<const float> x, FourBitForm form) {
  require(is_four_bit_block(form.block), "quantize: not a size of blocks");
  const auto n = static_cast<std::int64_t>(x.size());
  FourBitData q{.form = {form.book, form.block, false}, .elements = n};
  q.codes.resize(static_cast<std::size_t>((n + 1) / 2));
  q.absmax.resize(static_cast<std::size_t>(form.blocks(n)));
  const FourBitBounds bounds = four_bit_bounds(form.book);
  const FourBitTable table = four_bit_table(form.book);
  in_parallel((n + kRunOfBlocks - 1) / kRunOfBlocks, [&](std::int64_t piece) {
    const std::int64_t end = std::min(n, (piece + 1) * kRunOfBlocks);
    for (std::int64_t i = piece * kRunOfBlocks; i < end; i += form.block)
      quantize_block(q.codes.data() + i / 2, q.absmax[static_cast<std::size_t>(i / form.block)], x.data() + i,
                     std::min(form.block, end - i), bounds, table);
  });
  if (!form.nested) return q;
  double sum = 0;
  for (const float a : q.absmax) sum += a;
  quantize_absmax(q, n > 0 ? static_cast<float>(sum / static_cast<double>(q.absmax.size())) : 0);
  return q;
}

void quantize_absmax(FourBitData& q, float offset) {
  const std::size_t n = q.absmax.size(), block = kNestedBlock;
  q.form.nested = true;
  q.nested_offset = offset;
  q.absmax_codes.resize(n);
  q.nested_absmax.resize((n + block - 1) / block);
  for (std::size_t b = 0; b < q.nested_absmax.size(); ++b) {
    const std::size_t end = std::min(n, (b + 1) * block);
    float most = 0;
    for (std::size_t i = b * block; i < end; ++i) most = std::max(most, std::fabs(q.absmax[i] - offset));
    q.nested_absmax[b] = most;
    const float scale = most > 0 ? 1 / most : 0;
    for (std::size_t i = b * block; i < end; ++i)
      q.absmax_codes[i] = nested_code((q.absmax[i] - offset) * scale);
  }
  q.absmax.clear();
}

void dequantize(std::span<float> y, const FourBitData& q, std::int64_t first) {
  const auto count = static_cast<std::int64_t>(y.size());
  require(0 <= first && first + count <= q.elements, "dequantize: elements that are not there");
  const FourBitValues values = four_bit_values(q.form.book);
  in_parallel((count + kRunOfBlocks - 1) / kRunOfBlocks, [&](std::int64_t piece) {
    const std::int64_t end = first + std::min(count, (piece + 1) * kRunOfBlocks);
    for (std::int64_t i = first + piece * kRunOfBlocks; i < end;) {
      const std::int64_t block = i / q.form.block, stop = std::min(end, (block + 1) * q.form.block);
      const float absmax = absmax_of(q, block);
      for (; i < stop; ++i)
        y[static_cast<std::size_t>(i - first)] = values.of[four_bit_code(q.codes.data(), i)] * absmax;
    }
  });
}

}  // namespace ft
