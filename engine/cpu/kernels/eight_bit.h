// Steps of optimizers whose states are in 8 bits: each block is decoded, stepped, and encoded again.
#pragma once
#include "engine/cpu/kernels/step_each.h"
#include "engine/quant/dynamic_lines.h"

namespace ft::cpu::FT_TARGET {
namespace {

// A state: codes of the dynamic map, and the largest magnitude of each block.
class CodedState {
 public:
  CodedState(const Tensor& codes, const Tensor& largest, bool has_signs)
      : codes_(data_of<std::uint8_t>(codes)),
        largest_(data_of<float>(largest)),
        map_(dynamic_map(has_signs).data()),
        bounds_(dynamic_bounds(has_signs).data()),
        lines_(dynamic_lines(has_signs)) {}

  // x (n): receives n elements of a block.
  void decode(float* x, i64 block, i64 n) const {
    const std::uint8_t* codes = codes_ + block * op::kCodedBlock;
    const ByteTable values = byte_table(map_);
    i64 i = 0;
    for (; i + kLanes <= n; i += kLanes) store(x + i, look_up(values, codes + i) * splat(largest_[block]));
    for (; i < n; ++i) x[i] = map_[codes[i]] * largest_[block];
  }

  // top: the largest |x|.
  void encode(i64 block, const float* x, i64 n, float top) const {
    std::uint8_t* codes = codes_ + block * op::kCodedBlock;
    largest_[block] = top;
    const float by = top > 0 ? top : 1;
    i64 i = 0;
    if (by > 1e-30f && by < 1e30f) {  // so that x / by equals x (1 / by) except for rounding
      const Lines lines(lines_, by);
      for (; i + kLanes <= n; i += kLanes) {
        unsigned unsure = lines.encode(codes + i, load(x + i));
        for (; unsure != 0; unsure &= unsure - 1) {
          const i64 j = i + __builtin_ctz(unsure);
          codes[j] = static_cast<std::uint8_t>(dynamic_code_near(bounds_, codes[j], x[j] / by));
        }
      }
    }
    for (; i < n; ++i) codes[i] = static_cast<std::uint8_t>(dynamic_code(bounds_, x[i] / by));
  }

 private:
  // The lines of DynamicLines, in registers.
  struct Lines {
    Lines(const DynamicLines& l, float by)
        : scale(table(l.scale.data(), 1)),
          start(table(l.start.data(), 1)),
          next(table(l.next.data(), 1)),
          shrink(splat((1 - DynamicLines::kShort) / by)),
          by_bits(splat(l.by_bits)),
          from_bits(splat(l.from_bits)),
          zero_code(splat(l.zero)) {}

    // Writes codes of x / by; returns a bit for each lane whose code may be off by one.
    [[gnu::always_inline]] inline unsigned encode(std::uint8_t* codes, Vec x) const {
      const Vec y = x * shrink, a = max(abs(y), splat(DynamicLines::kLeast));
      const WordVec line = to_integers(fma(from_integers(as_words(a)), by_bits, from_bits));
      const Vec place = fma(a, look_up(scale, line), look_up(start, line));
      const Vec down = round(place), last = look_up(next, line);
      const Vec magnitude = select(less(down, last), down, min(down - splat(1), last));
      store_bytes(codes, select(less(y, zero()), zero_code - magnitude, zero_code + magnitude));
      return bits(either(not_less(abs(place - down), splat(0.5f - DynamicLines::kNear)),
                         not_less(a, splat(DynamicLines::kTop))));
    }

    Table scale, start, next;
    Vec shrink, by_bits, from_bits, zero_code;
  };

  std::uint8_t* codes_;
  float* largest_;
  const float *map_, *bounds_;
  const DynamicLines& lines_;
};

// Calls f(x, gradient) on vectors of the master and the states, which it changes, and of grad.
template <std::size_t N, class F>
void step_each_block(const Tensor& master, const Tensor& value, const CodedState (&states)[N],
                     const Tensor& grad, Team& team, const F& f) {
  const RoundedTo rounded(value);
  auto* p = data_of<float>(master);
  const auto* g = data_of<const float>(grad);
  const auto step = [&](i64 first, i64 n) {
    float decoded[N][op::kCodedBlock];
    Vec most[N];
    const i64 block = first / op::kCodedBlock;
    for (std::size_t k = 0; k < N; ++k) {
      states[k].decode(decoded[k], block, n);
      most[k] = zero();
    }
    each_vector(n, [&](auto part, i64 i) {
      Vec x[N + 1] = {part.load(p + first + i)};
      for (std::size_t k = 0; k < N; ++k) x[k + 1] = part.load(decoded[k] + i);
      f(x, part.load(g + first + i));
      part.store(p + first + i, x[0]);
      rounded.put(part, first + i, x[0]);
      for (std::size_t k = 0; k < N; ++k) {
        part.store(decoded[k] + i, x[k + 1]);
        most[k] = max(most[k], abs(x[k + 1]));
      }
    });
    for (std::size_t k = 0; k < N; ++k) states[k].encode(block, decoded[k], n, largest(most[k]));
  };
  each_span(1, elements_of(grad), true, team, [&](i64, i64 first, i64 count) {  // spans of complete blocks
    for (i64 at = 0; at < count; at += op::kCodedBlock) step(first + at, least(op::kCodedBlock, count - at));
  });
}

}  // namespace
}  // namespace ft::cpu::FT_TARGET
