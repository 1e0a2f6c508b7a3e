// Products of blocks of columns with square matrices, and skew-symmetric matrices.
#include "engine/cpu/kernels/leaf_functions.h"
#include "engine/cpu/kernels/loops.h"

namespace ft::cpu::FT_TARGET {
namespace {

constexpr i64 kTile = 64;  // columns that are summed at a time
constexpr i64 kDown = 16;  // rows of a matrix whose gradient is summed at a time
constexpr i64 kRows = 64;  // rows that are summed before they are added to others

// Reads n numbers.
template <class T>
inline void widen(float* y, const T* x, i64 n) {
  each_vector(n, [&](auto part, i64 i) { part.store(y + i, part.load(x + i)); });
}

// sums (width) = x (n) times columns [column, column + width) of b.
template <class T>
inline void multiply(float* sums, const T* x, const View& b, i64 column, i64 width) {
  for (i64 i = 0; i < width; ++i) sums[i] = 0;
  for (i64 from = 0; from < b.rows; from += kTile) {
    const i64 depth = least(kTile, b.rows - from);
    float wide[kTile];
    widen(wide, x + from, depth);
    for (i64 k = 0; k < depth; ++k) {
      const float* row = at<float>(b, from + k) + column;
      for (i64 i = 0; i < width; ++i) sums[i] += wide[k] * row[i];
    }
  }
}

// Place above the diagonal of a matrix of n rows, in the order of rows; row < column.
inline i64 place(i64 n, i64 row, i64 column) { return row * (2 * n - row - 1) / 2 + column - row - 1; }

}  // namespace

void compute(const op::BlockProducts& op, Team& team) {
  const View y = view_of(op.y), x = view_of(op.x), b = view_of(op.b);
  const i64 n = b.rows;
  const float diagonal = op.diagonal;
  with_float(y.type, [&](auto t) {
    using T = decltype(t);
    each_item(y.rows, y.rows * y.cols * least(n, kTile), team, [&](i64 r) {
      for (i64 first = 0; first < y.cols; first += n)
        for (i64 c = 0; c < n; c += kTile) {
          const i64 width = least(kTile, n - c);
          float sums[kTile];
          multiply(sums, at<T>(x, r) + first, b, first % b.cols + c, width);
          if (r >= c && r < c + width) sums[r - c] += diagonal;
          T* to = at<T>(y, r) + first + c;
          each_vector(width, [&](auto part, i64 i) { part.store(to + i, part.load(sums + i)); });
        }
    });
  });
}

// A thread computes a few rows of one matrix.
void compute(const op::BlockProductsGrad& op, Team& team) {
  const View db = view_of(op.db), x = view_of(op.x), dy = view_of(op.dy);
  const i64 n = db.rows, downs = (n + kDown - 1) / kDown;
  with_float(x.type, [&](auto t) {
    using T = decltype(t);
    each_item(db.cols / n * downs, x.rows * x.cols * least(n, kTile), team, [&](i64 item) {
      const i64 block = item / downs * n, down = item % downs * kDown, rows = least(kDown, n - down);
      for (i64 c = 0; c < n; c += kTile) {
        const i64 width = least(kTile, n - c);
        float total[kDown][kTile] = {};
        for (i64 first = block; first < x.cols; first += db.cols)
          for (i64 from = 0; from < x.rows; from += kRows) {
            float sums[kDown][kTile] = {};
            for (i64 r = from; r < least(from + kRows, x.rows); ++r) {
              float left[kDown], right[kTile];
              widen(left, at<T>(x, r) + first + down, rows);
              widen(right, at<T>(dy, r) + first + c, width);
              for (i64 k = 0; k < rows; ++k)
                for (i64 i = 0; i < width; ++i) sums[k][i] += left[k] * right[i];
            }
            for (i64 k = 0; k < rows; ++k)
              for (i64 i = 0; i < width; ++i) total[k][i] += sums[k][i];
          }
        for (i64 k = 0; k < rows; ++k) {
          float* to = at<float>(db, down + k) + block + c;
          for (i64 i = 0; i < width; ++i) to[i] += total[k][i];
        }
      }
    });
  });
}

void compute(const op::SkewMatrices& op, Team& team) {
  const View y = view_of(op.y), x = view_of(op.x);
  const i64 n = y.rows;
  const float sign = op.sign;
  each_row(n, y.cols, team, [&](i64 r) {
    float* to = at<float>(y, r);
    for (i64 j = 0; j < x.rows; ++j) {
      const float* from = at<float>(x, j);
      for (i64 c = 0; c < n; ++c)
        to[j * n + c] = c > r ? sign * from[place(n, r, c)] : c < r ? -sign * from[place(n, c, r)] : 0;
    }
  });
}

void compute(const op::SkewMatricesGrad& op, Team& team) {
  const View dx = view_of(op.dx), dy = view_of(op.dy);
  const i64 n = dy.rows;
  each_row(dx.rows, dx.cols, team, [&](i64 j) {
    float* to = at<float>(dx, j);
    for (i64 r = 0; r < n; ++r)
      for (i64 c = r + 1; c < n; ++c)
        to[place(n, r, c)] += at<float>(dy, r)[j * n + c] - at<float>(dy, c)[j * n + r];
  });
}

}  // namespace ft::cpu::FT_TARGET
