// Elements that draw random numbers, for dropout and noise.
#pragma once
#include "engine/cpu/kernels/loops.h"
#include "engine/cpu/kernels/philox.h"
#include "engine/ops/elementwise.h"

namespace ft::cpu::FT_TARGET {
namespace {

// Draws kBlock uniform numbers at a time, with sixteen counters.
struct Uniforms {
  static constexpr i64 kBlock = 4 * kCounters;
  static void draw(float (&u)[kBlock], const std::uint32_t (&low)[kCounters],
                   const std::uint32_t (&high)[kCounters], std::uint64_t key) {
    uniforms(u, low, high, key);
  }
};
struct Decisions {
  static constexpr i64 kBlock = 8 * kCounters;
  static void draw(float (&u)[kBlock], const std::uint32_t (&low)[kCounters],
                   const std::uint32_t (&high)[kCounters], std::uint64_t key) {
    Eights eight;
    eights(eight, low, high, key);
    for (int j = 0; j < kCounters; ++j)
      for (int n = 0; n < 8; ++n) u[8 * j + n] = eight.of[n][j];
  }
};
template <class Draws>
inline void draw_block(float (&u)[Draws::kBlock], std::uint64_t block, std::uint64_t key) {
  std::uint32_t low[kCounters], high[kCounters];
  for (int j = 0; j < kCounters; ++j) {
    const std::uint64_t index = block * kCounters + static_cast<std::uint64_t>(j);
    low[j] = static_cast<std::uint32_t>(index);
    high[j] = static_cast<std::uint32_t>(index >> 32);
  }
  Draws::draw(u, low, high, key);
}

// Numbers of elements: number of the first element, and distance from one row to the next.
struct Numbers {
  i64 first, columns;
};

// Calls f(row, column, count, u) for pieces of all rows, with the random numbers of their elements.
template <class Draws, class F>
void each_with_draws(const View& y, bool all_dense, Numbers number, std::uint64_t key, Team& team, F f) {
  constexpr i64 kBlock = Draws::kBlock;
  each_span(y.rows, y.cols, all_dense && number.columns == y.cols, team, [&](i64 row, i64 column, i64 count) {
    const i64 first = number.first + row * number.columns + column;  // number of the span's first element
    float u[kBlock + kLanes];  // loads may reach beyond the numbers; such lanes are not used
    float(&numbers)[kBlock] = reinterpret_cast<float(&)[kBlock]>(u);
    for (i64 i = 0; i < count;) {
      const i64 skip = (first + i) % kBlock, n = least(kBlock - skip, count - i);
      draw_block<Draws>(numbers, static_cast<std::uint64_t>((first + i) / kBlock), key);
      f(row, column + i, n, u + skip);
      i += n;
    }
  });
}

// Dropout of a piece of a row: kept elements are scaled up by `growth`. Without dropout all are kept, and
// growth is 1.
struct Drawn {
  const float* u;  // null: no dropout
  Vec limit, growth;
  template <class Part>
  Vec kept(Part part, i64 i, Vec x) const {
    return u ? select(less(limit, part.load(u + i)), x, zero()) : x;
  }
};

// Calls f(row, column, count, drawn) for pieces of all rows.
template <class F>
void each_dropped(const View& y, bool all_dense, const op::Drop& drop, Team& team, F f) {
  if (drop.p == 0)
    return each_span(y.rows, y.cols, all_dense, team, [&](i64 row, i64 column, i64 count) {
      f(row, column, count, Drawn{nullptr, zero(), splat(1)});
    });
  const DropRule rule(drop.p);
  const Vec limit = splat(below_kept(rule)), growth = splat(rule.growth());
  const i64 columns = drop.columns > 0 ? drop.columns : y.cols;
  each_with_draws<Decisions>(y, all_dense, {drop.first_row * columns + drop.first_column, columns},
                             drop.random.key, team, [&](i64 row, i64 column, i64 count, const float* u) {
                               f(row, column, count, Drawn{u, limit, growth});
                             });
}

}  // namespace
}  // namespace ft::cpu::FT_TARGET
