// Magnitudes of a matrix's rows, columns rescaled by them, gathered by number, and folded; products of single
// elements, and elements at numbered places.
#include "engine/cpu/kernels/four_bit.h"
#include "engine/cpu/kernels/fp8.h"
#include "engine/cpu/kernels/leaf_functions.h"
#include "engine/cpu/kernels/loops.h"
#include "engine/cpu/operands.h"

namespace ft::cpu::FT_TARGET {

// Reads p a few columns at a time, and a vector of each row of b: p's rows are long and b's are short.
void compute(const op::Magnitudes& op, Team& team) {
  constexpr i64 kBlock = 64;
  const View b = view_of(op.b), p = view_of(op.p);
  const auto *magnitude = data_of<const float>(op.magnitude), *squares = data_of<const float>(op.squares);
  auto *scale = data_of<float>(op.scale), *per_norm = data_of<float>(op.per_norm);
  with_float(b.type, [&](auto t) {
    using T = decltype(t);
    each_item((b.rows + kBlock - 1) / kBlock, b.rows * b.cols, team, [&](i64 block) {
      const i64 first = block * kBlock, n = least(kBlock, b.rows - first);
      float sum[kBlock];
      for (i64 i = 0; i < n; ++i) sum[i] = squares[first + i];
      each_vector(b.cols, [&](auto part, i64 k) {
        float wide[kBlock][kLanes];
        for (i64 i = 0; i < n; ++i) store(wide[i], part.load(at<T>(b, first + i) + k));
        for (i64 j = 0; j < least(kLanes, b.cols - k); ++j) {
          const float* row = at<float>(p, k + j) + first;
          for (i64 i = 0; i < n; ++i) sum[i] += wide[i][j] * row[i];
        }
      });
      for (i64 i = 0; i < n; ++i) {
        const float r = per_norm[first + i] = 1 / __builtin_sqrtf(sum[i]);
        scale[first + i] = magnitude[first + i] * r;
      }
    });
  });
}

void compute(const op::ScaleColumns& op, Team& team) {
  const View y = view_of(op.y), x = view_of(op.x);
  const auto* scale = data_of<const float>(op.scale);
  with_float(y.type, [&](auto t) {
    using T = decltype(t);
    const auto* bias = data_of<const T>(op.bias);
    each_row(y.rows, y.cols, team, [&](i64 r) {
      const T* px = at<T>(x, r);
      T* py = at<T>(y, r);
      each_vector(y.cols, [&](auto part, i64 i) {
        const Vec scaled = part.load(px + i) * part.load(scale + i);
        part.store(py + i, bias ? scaled + part.load(bias + i) : scaled);
      });
    });
  });
}

void compute(const op::ColumnDots& op, Team& team) {
  const View a = view_of(op.a), b = view_of(op.b);
  const auto* scale = data_of<const float>(op.scale);
  with_float(a.type, [&](auto t) {
    using T = decltype(t);
    add_column_sums(data_of<float>(op.y), a.rows, a.cols, team, [&](auto part, i64 r, i64 i) {
      return part.load(at<T>(a, r) + i) * part.load(at<T>(b, r) + i) * part.load(scale + i);
    });
  });
}

void compute(const op::GatherColumns& op, Team& team) {
  const View y = view_of(op.y), x = view_of(op.x);
  const auto* columns = data_of<const std::int32_t>(op.columns);
  with_float(y.type, [&](auto t) {
    using T = decltype(t);
    each_row(y.rows, y.cols, team, [&](i64 r) {
      for (i64 j = 0; j < y.cols; ++j) at<T>(y, r)[j] = at<T>(x, r)[columns[j]];
    });
  });
}

constexpr i64 kStep = 256;  // elements of W that are decoded at a time

// Multiplies x with the elements of W that w(buffer, r, c, n) returns: n of row r from column c on, perhaps
// in the buffer.
inline void multiply(const View& y, const View& x, Team& team, const auto& w) {
  const auto run = [&](auto t, auto from) {
    using T = decltype(t);
    using X = decltype(from);
    each_row(y.rows, y.cols, team, [&](i64 r) {
      alignas(64) T buffer[kStep];
      T* py = at<T>(y, r);
      const X* px = at<X>(x, r);
      for (i64 c = 0; c < y.cols; c += kStep) {
        const i64 n = least(kStep, y.cols - c);
        const T* pw = w(buffer, r, c, n);
        each_vector(
            n, [&](auto part, i64 i) { part.store(py + c + i, part.load(px + c + i) * part.load(pw + i)); });
      }
    });
  };
  with_float(y.type, [&](auto t) { x.type == y.type ? run(t, t) : run(t, 0.0f); });
}

void compute(const op::Hadamard& op, Team& team) {
  const View y = view_of(op.y), x = view_of(op.x), b = view_of(op.w.b);
  const auto decoded = [&](const auto& q) {
    multiply(y, x, team, [&](auto* buffer, i64 r, i64 c, i64 n) {
      decode(buffer, q, r * y.cols + c, n);
      return buffer;
    });
  };
  if (op.w.four_bit.codes.data != nullptr) return decoded(operand_of(op.w.four_bit));
  if (op.w.fp8.codes.data != nullptr) return decoded(operand_of(op.w.fp8));
  if (op.w.tb == Trans::no)
    return multiply(y, x, team, [&]<class T>(T*, i64 r, i64 c, i64) { return at<T>(b, r) + c; });
  multiply(y, x, team, [&]<class T>(T* buffer, i64 r, i64 c, i64 n) {
    for (i64 i = 0; i < n; ++i) buffer[i] = at<T>(b, c + i)[r];
    return buffer;
  });
}

constexpr i64 kElements = 4096;  // places that a thread takes at a time

void compute(const op::ScatterElements& op, Team& team) {
  const View y = view_of(op.y), places = view_of(op.at);
  with_float(y.type, [&](auto t) {
    using T = decltype(t);
    const T* x = data_of<const T>(op.x);
    const auto *row = at<const std::int32_t>(places, 0), *column = at<const std::int32_t>(places, 1);
    each_item((places.cols + kElements - 1) / kElements, places.cols, team, [&](i64 item) {
      for (i64 i = item * kElements; i < least((item + 1) * kElements, places.cols); ++i)
        at<T>(y, row[i])[column[i]] = x[i];
    });
  });
}

void compute(const op::ScatterElementsGrad& op, Team& team) {
  const View dy = view_of(op.dy), places = view_of(op.at);
  auto* dx = data_of<float>(op.dx);
  const auto *row = at<const std::int32_t>(places, 0), *column = at<const std::int32_t>(places, 1);
  each_item((places.cols + kElements - 1) / kElements, places.cols, team, [&](i64 item) {
    for (i64 i = item * kElements; i < least((item + 1) * kElements, places.cols); ++i)
      dx[i] += at<float>(dy, row[i])[column[i]];
  });
}

// Adds up a few columns of y at a time, with one piece of x after another.
void compute(const op::FoldColumns& op, Team& team) {
  constexpr i64 kBlock = 64;
  const View y = view_of(op.y), x = view_of(op.x);
  const i64 n = y.cols, begin = op.first % n;
  with_float(y.type, [&](auto t) {
    using T = decltype(t);
    each_row(y.rows, x.cols, team, [&](i64 r) {
      const T* px = at<T>(x, r);
      T* py = at<T>(y, r);
      for (i64 k = 0; k < n;) {
        // x's first column with remainder k; the next remainders follow it up to begin, where x begins.
        const i64 from = k < begin ? k - begin + n : k - begin;
        const i64 width = least(kBlock, (k < begin ? begin : n) - k);
        float sums[kBlock] = {};
        for (i64 j = from; j < x.cols; j += n)
          each_vector(least(width, x.cols - j), [&](auto part, i64 i) {
            part.store(sums + i, part.load(sums + i) + part.load(px + j + i));
          });
        each_vector(width, [&](auto part, i64 i) { part.store(py + k + i, part.load(sums + i)); });
        k += width;
      }
    });
  });
}

void compute(const op::FoldColumnsGrad& op, Team& team) {
  const View dx = view_of(op.dx), dy = view_of(op.dy);
  const i64 n = dy.cols;
  const auto unfold = [&](auto narrow, auto wide) {
    using N = decltype(narrow);
    using W = decltype(wide);
    each_row(dx.rows, dx.cols, team, [&](i64 r) {
      const N* pdy = at<N>(dy, r);
      W* pdx = at<W>(dx, r);
      for (i64 j = 0, k = op.first % n; j < dx.cols; k = 0) {
        const i64 width = least(n - k, dx.cols - j);
        each_vector(width, [&](auto part, i64 i) {
          part.store(pdx + j + i, part.load(pdx + j + i) + part.load(pdy + k + i));
        });
        j += width;
      }
    });
  };
  with_float(dy.type,
             [&](auto narrow) { dx.type == dy.type ? unfold(narrow, narrow) : unfold(narrow, 0.0f); });
}

}  // namespace ft::cpu::FT_TARGET
