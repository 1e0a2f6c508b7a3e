// Elements that draw random numbers: dropout's, and those that noise is added to.
#pragma once
#include "engine/cpu/kernels/loops.h"
#include "engine/cpu/kernels/philox.h"
#include "engine/ops/elementwise.h"

namespace ft::cpu::FT_TARGET {
namespace {

// Draws of kBlock elements at a time, with sixteen counters.
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

// The numbers of elements: the first one's, and from one row's to the next.
struct Numbers {
  i64 first, columns;
};

// f(row, column, count, u): pieces of all rows with what their elements draw.
template <class Draws, class F>
void each_with_draws(const View& y, bool all_dense, Numbers number, std::uint64_t key, Team& team, F f) {
  constexpr i64 kBlock = Draws::kBlock;
  each_span(y.rows, y.cols, all_dense && number.columns == y.cols, team, [&](i64 row, i64 column, i64 count) {
    const i64 first = number.first + row * number.columns + column;  // of the span's first element
    float u[kBlock + kLanes];  // loads go beyond the numbers, not their use
    float(&numbers)[kBlock] = reinterpret_cast<float(&)[kBlock]>(u);
    for (i64 i = 0; i < count;) {
      const i64 skip = (first + i) % kBlock, n = least(kBlock - skip, count - i);
      draw_block<Draws>(numbers, static_cast<std::uint64_t>((first + i) / kBlock), key);
      f(row, column + i, n, u + skip);
      i += n;
    }
  });
}

// Dropout of a piece of a row: kept elements grow. Without dropout all are kept and grow by 1.
struct Drawn {
  const float* u;  // null: without
  Vec limit, growth;
  template <class Part>
  Vec kept(Part part, i64 i, Vec x) const {
    return u ? select(less(limit, part.load(u + i)), x, zero()) : x;
  }
};

// f(row, column, count, drawn): pieces of all rows.
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
