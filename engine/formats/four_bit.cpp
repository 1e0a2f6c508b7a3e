#include "engine/formats/four_bit.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "engine/core/require.h"
#include "engine/cpu/quantize.h"
#include "engine/files/parallel.h"

namespace ft {
namespace {

// Elements that a thread processes at once: a multiple of blocks and of bytes, which fits into the L2 cache.
constexpr std::int64_t kRunOfBlocks = 1 << 18;

// at(first, count) returns the elements in memory.
template <class F>
FourBitData quantize_runs(std::int64_t n, DType type, FourBitForm form, const F& at) {
  require(is_four_bit_block(form.block), "quantize: not a size of blocks");
  FourBitData q{.form = {form.book, form.block, false}, .elements = n};
  q.codes.resize(static_cast<std::size_t>((n + 1) / 2));
  q.absmax.resize(static_cast<std::size_t>(form.blocks(n)));
  const auto run = cpu::best_quantize_kernels().run;
  const cpu::FourBitPlaces places = cpu::places_of(form.book);
  in_parallel((n + kRunOfBlocks - 1) / kRunOfBlocks, [&](std::int64_t piece) {
    const std::int64_t first = piece * kRunOfBlocks, count = std::min(kRunOfBlocks, n - first);
    const auto x = at(first, count);
    require(run(q.codes.data() + first / 2, q.absmax.data() + first / form.block, &x[0], type, count,
                form.block, places),
            "quantize: a value is not finite");
  });
  if (!form.nested) return q;
  double sum = 0;
  for (const float a : q.absmax) sum += a;
  quantize_absmax(q, n > 0 ? static_cast<float>(sum / static_cast<double>(q.absmax.size())) : 0);
  return q;
}

}  // namespace

FourBitData quantize(std::span<const float> x, FourBitForm form) {
  return quantize_runs(static_cast<std::int64_t>(x.size()), DType::f32, form,
                       [&](std::int64_t first, std::int64_t) { return x.data() + first; });
}

FourBitData quantize(std::int64_t elements, DType type, FourBitForm form, const ReadElements& read) {
  return quantize_runs(elements, type, form, [&](std::int64_t first, std::int64_t count) {
    auto x = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(count * size_of(type)));
    read({x.get(), type, {count}}, first);
    return x;
  });
}

void quantize_absmax(FourBitData& q, float offset) {
  const std::size_t n = q.absmax.size(), block = kNestedBlock;
  q.form.nested = true;
  q.nested_offset = offset;
  q.absmax_codes.resize(n);
  q.nested_absmax.resize((n + block - 1) / block);
  const auto of_block = [&](std::size_t b) {
    const std::size_t end = std::min(n, (b + 1) * block);
    float most = 0;
    for (std::size_t i = b * block; i < end; ++i) most = std::max(most, std::fabs(q.absmax[i] - offset));
    q.nested_absmax[b] = most;
    const float scale = most > 0 ? 1 / most : 0;
    for (std::size_t i = b * block; i < end; ++i)
      q.absmax_codes[i] = nested_code((q.absmax[i] - offset) * scale);
  };
  constexpr std::int64_t kRun = 256;  // nested blocks
  const auto blocks = static_cast<std::int64_t>(q.nested_absmax.size());
  in_parallel((blocks + kRun - 1) / kRun, [&](std::int64_t piece) {
    for (std::int64_t b = piece * kRun; b < std::min(blocks, (piece + 1) * kRun); ++b)
      of_block(static_cast<std::size_t>(b));
  });
  q.absmax.clear();
}

float absmax_of(const FourBitData& q, std::int64_t block) {
  const auto b = static_cast<std::size_t>(block);
  if (!q.form.nested) return q.absmax[b];
  return nested_value(nested_map()[q.absmax_codes[b]], q.nested_absmax[b / kNestedBlock], q.nested_offset);
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
