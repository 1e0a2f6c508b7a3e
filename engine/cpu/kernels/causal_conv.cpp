// The short convolution along the tokens, with silu, and its gradient. An item is a block of columns and some
// of the rows; the weights of a block are turned, so that a tap is a vector.
#include "engine/cpu/kernels/leaf_functions.h"
#include "engine/cpu/kernels/loops.h"

namespace ft::cpu::FT_TARGET {
namespace {

constexpr i64 kColumns = 4 * kLanes, kRows = 64;

struct Taps {
  float of[op::kMostTaps][kColumns];
};
template <class T>
void load_taps(Taps& taps, const T* w, i64 n, i64 first, i64 columns) {
  for (i64 j = 0; j < n; ++j)
    for (i64 c = 0; c < columns; ++c) taps.of[j][c] = to_float(w[(first + c) * n + j]);
}

// Calls f(first column, columns, first row, end) for all blocks.
template <class F>
void each_block(i64 rows, i64 cols, i64 rows_at_once, Team& team, const F& f) {
  const i64 across = (cols + kColumns - 1) / kColumns, down = (rows + rows_at_once - 1) / rows_at_once;
  each_item(across * down, rows * cols, team, [&](i64 i) {
    const i64 column = i % across * kColumns, row = i / across * rows_at_once;
    f(column, least(kColumns, cols - column), row, least(row + rows_at_once, rows));
  });
}

// The sum over the taps at one row, before silu. input(j): the row of tap j's input, or null for zeros.
template <class T, class Input>
inline Vec tapped(auto part, const Taps& taps, i64 n, i64 i, const Input& input) {
  Vec sum = zero();
  for (i64 j = 0; j < n; ++j)
    if (const T* x = input(j)) sum = fma(part.load(taps.of[j] + i), part.load(x + i), sum);
  return sum;
}

template <class T>
struct Conv {
  View x, memory;
  const std::int32_t *first, *slot, *past;
  i64 taps;
  // The input of tap j at a row; null: it is before the sequence.
  const T* input(i64 row, i64 j, i64 column) const {
    const i64 from = row - (taps - 1) + j;
    if (from >= first[row]) return at<T>(x, from) + column;
    if (!memory.data || past[row] == 0) return nullptr;
    return at<T>(memory, slot[row]) + (from - first[row] + taps - 1) * x.cols + column;
  }
};

// Keeps the last inputs of the sequence that ends before `end`. The oldest go first, because they may come
// from the memory itself.
template <class T>
void remember(const Conv<T>& c, i64 end, i64 column, i64 columns) {
  T* to = at<T>(c.memory, c.slot[end - 1]) + column;
  for (i64 j = 1; j < c.taps; ++j, to += c.x.cols) {
    const T* from = c.input(end - 1, j, column);
    for (i64 i = 0; i < columns; ++i) {
      if (from)
        to[i] = from[i];
      else
        from_float(to[i], 0);
    }
  }
}

template <class T>
void convolve(const op::CausalConv& op, Team& team) {
  const View y = view_of(op.y), w = view_of(op.w);
  const Conv<T> c{view_of(op.x),
                  view_of(op.memory),
                  data_of<const std::int32_t>(op.first),
                  data_of<const std::int32_t>(op.slot),
                  data_of<const std::int32_t>(op.past),
                  w.cols};
  const bool remembers = c.memory.data != nullptr;
  // With a memory one item has all rows of its columns: a later row overwrites the inputs of earlier ones.
  each_block(y.rows, y.cols, remembers ? y.rows : kRows, team,
             [&](i64 column, i64 columns, i64 from, i64 end) {
               Taps taps;
               load_taps(taps, data_of<const T>(op.w), w.cols, column, columns);
               for (i64 r = from; r < end; ++r) {
                 T* to = at<T>(y, r) + column;
                 const auto input = [&](i64 j) { return c.input(r, j, column); };
                 each_vector(columns, [&](auto part, i64 i) {
                   part.store(to + i, math::silu(tapped<T>(part, taps, w.cols, i, input)).value);
                 });
                 if (remembers && (r + 1 == y.rows || c.first[r + 1] != c.first[r]))
                   remember(c, r + 1, column, columns);
               }
             });
}

// The gradients of the sums before silu, of the last rows.
struct Ring {
  float of[op::kMostTaps][kColumns];
  float* row(i64 r) { return of[r % op::kMostTaps]; }
};

// Goes through the rows of a block of columns backwards: a row's dx needs the sums' gradients of later rows.
template <class T>
void convolve_back(const op::CausalConvGrad& op, Team& team) {
  const View dx = view_of(op.dx), dy = view_of(op.dy), w = view_of(op.w), x = view_of(op.x);
  const Conv<T> c{x, View{}, data_of<const std::int32_t>(op.first), nullptr, nullptr, w.cols};
  float* const dw = data_of<float>(op.dw);
  each_block(x.rows, x.cols, x.rows, team, [&](i64 column, i64 columns, i64, i64) {
    Taps taps, total{}, part_total{};
    Ring ring;
    load_taps(taps, data_of<const T>(op.w), w.cols, column, columns);
    for (i64 r = x.rows - 1; r >= 0; --r) {
      const auto input = [&](i64 j) { return c.input(r, j, column); };
      each_vector(columns, [&](auto part, i64 i) {
        const Vec d =
            part.load(at<T>(dy, r) + column + i) * math::silu(tapped<T>(part, taps, w.cols, i, input)).slope;
        part.store(ring.row(r) + i, d);
        for (i64 j = 0; j < w.cols; ++j)
          if (const T* in = input(j)) {
            float* sum = part_total.of[j] + i;
            part.store(sum, fma(d, part.load(in + i), part.load(sum)));
          }
        if (!dx.data) return;
        Vec sum = zero();
        for (i64 j = 0; j < w.cols && r + j < x.rows && c.first[r + j] == c.first[r]; ++j)
          sum = fma(part.load(ring.row(r + j) + i), part.load(taps.of[w.cols - 1 - j] + i), sum);
        part.store(at<T>(dx, r) + column + i, sum);
      });
      if (r % kRows != 0) continue;  // adds up 64 rows at a time, as add_column_sums does
      for (i64 j = 0; j < w.cols; ++j)
        for (i64 i = 0; i < columns; ++i) total.of[j][i] += part_total.of[j][i], part_total.of[j][i] = 0;
    }
    for (i64 i = 0; i < columns && dw; ++i)
      for (i64 j = 0; j < w.cols; ++j) dw[(column + i) * w.cols + j] += total.of[j][i];
  });
}

}  // namespace

void compute(const op::CausalConv& op, Team& team) {
  with_float(op.x.dtype, [&](auto t) { convolve<decltype(t)>(op, team); });
}

void compute(const op::CausalConvGrad& op, Team& team) {
  with_float(op.x.dtype, [&](auto t) { convolve_back<decltype(t)>(op, team); });
}

}  // namespace ft::cpu::FT_TARGET
