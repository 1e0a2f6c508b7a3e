// The gated delta rule and its gradient: the executor of engine/ops/delta_chunk.h with vectors. An item is a
// key head, with some of the sequences.
#include "engine/cpu/kernels/leaf_functions.h"
#include "engine/cpu/kernels/loops.h"
#include "engine/cpu/kernels/words.h"
#include "engine/ops/delta_chunk.h"

namespace ft::cpu::FT_TARGET {
namespace {

// y (kRows, kVecs kLanes) = or += a b, all of it in registers.
template <int kRows, int kVecs>
void product_tile(float* y, i64 ldy, const float* a, i64 row, i64 column, const float* b, i64 ldb, i64 depth,
                  bool add) {
  Vec sum[kRows][kVecs];
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVecs; ++v) sum[r][v] = add ? load(y + r * ldy + v * kLanes) : zero();
  for (i64 p = 0; p < depth; ++p) {
    Vec right[kVecs];
    for (int v = 0; v < kVecs; ++v) right[v] = load(b + p * ldb + v * kLanes);
    for (int r = 0; r < kRows; ++r) {
      const Vec left = splat(a[r * row + p * column]);
      for (int v = 0; v < kVecs; ++v) sum[r][v] = fma(left, right[v], sum[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVecs; ++v) store(y + r * ldy + v * kLanes, sum[r][v]);
}

// Computes product_tile for m rows.
template <int kVecs>
void product_rows(float* y, i64 ldy, i64 m, const DeltaLeft& a, const float* b, i64 ldb, i64 depth,
                  bool add) {
  i64 r = 0;
  for (; r + 4 <= m; r += 4)
    product_tile<4, kVecs>(y + r * ldy, ldy, a.data + r * a.row, a.row, a.column, b, ldb, depth, add);
  for (; r < m; ++r)
    product_tile<1, kVecs>(y + r * ldy, ldy, a.data + r * a.row, a.row, a.column, b, ldb, depth, add);
}

// x (m rows of kVecs kLanes) = (I + a)^-1 x, a below its diagonal; back: with the transpose of I + a.
template <int kVecs>
void solve_columns(const DeltaMatrix& a, float* x, i64 ld, i64 m, bool back) {
  for (i64 step = 0; step < m; ++step) {
    const i64 r = back ? m - 1 - step : step;
    Vec sum[kVecs];
    for (int v = 0; v < kVecs; ++v) sum[v] = load(x + r * ld + v * kLanes);
    for (i64 c = back ? r + 1 : 0; c < (back ? m : r); ++c) {
      const Vec factor = splat(back ? a.data[c * a.ld + r] : a.data[r * a.ld + c]);
      for (int v = 0; v < kVecs; ++v) sum[v] = fnma(factor, load(x + c * ld + v * kLanes), sum[v]);
    }
    for (int v = 0; v < kVecs; ++v) store(x + r * ld + v * kLanes, sum[v]);
  }
}

// Columns of a row in one vector: Whole or Part of it.
template <class Lanes>
struct Columns : Lanes {
  static Vec all(float x) { return splat(x); }
  static Vec before(Vec x, i64 n) {
    static constexpr float kNumbers[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return select(less(FT_TARGET::load(kNumbers), splat(static_cast<float>(n))), x, zero());
  }
};

struct Vectors {
  void each(i64 rows, i64 columns, const auto& f) const {
    for (i64 r = 0; r < rows; ++r)
      each_vector(columns, [&](auto lanes, i64 c) { f(Columns<decltype(lanes)>{lanes}, r, c); });
  }
  void transpose(const DeltaMatrix& y, const DeltaMatrix& x, i64 rows, i64 columns) const {
    FT_TARGET::transpose(reinterpret_cast<Word*>(y.data), y.ld, x.data, x.ld, rows, columns);
  }
  void rows(i64 n, const auto& f) const {
    for (i64 r = 0; r < n; ++r) f(r);
  }
  template <class T>
  void load(const DeltaMatrix& y, const T* x, i64 stride, i64 rows, i64 columns) const {
    for (i64 r = 0; r < rows; ++r)
      each_vector(columns, [&](auto part, i64 c) {
        part.store(y.data + r * y.ld + c, part.load(x + r * stride + c));
      });
  }
  template <class T>
  void store(T* y, i64 stride, const DeltaMatrix& x, i64 rows, i64 columns) const {
    for (i64 r = 0; r < rows; ++r)
      each_vector(columns, [&](auto part, i64 c) {
        part.store(y + r * stride + c, part.load(x.data + r * x.ld + c));
      });
  }
  float dot(const float* a, const float* b, i64 n) const {
    return sum_over(n, [&](auto part, i64 i) { return part.load(a + i) * part.load(b + i); });
  }
  float exp(float x) const { return __builtin_expf(x); }
  void decays(const DeltaMatrix& y, const float* sum, i64 n) const {
    for (i64 r = 0; r < n; ++r) {
      const Vec top = splat(sum[r]);
      for (i64 c = 0; c <= r; c += kLanes)
        // min() returns its second operand for a NaN.
        FT_TARGET::store(y.data + r * y.ld + c, FT_TARGET::exp(min(zero(), top - FT_TARGET::load(sum + c))));
    }
  }
  void product(const DeltaMatrix& y, i64 m, i64 n, const DeltaLeft& a, const DeltaMatrix& b, i64 depth,
               bool add) const {
    constexpr int kWide = kLanes == 16 ? 4 : 2;
    i64 c = 0;
    for (; c + (kWide - 1) * kLanes < n; c += kWide * kLanes)
      product_rows<kWide>(y.data + c, y.ld, m, a, b.data + c, b.ld, depth, add);
    for (; c < n; c += kLanes) product_rows<1>(y.data + c, y.ld, m, a, b.data + c, b.ld, depth, add);
  }
  void solve(const DeltaMatrix& a, const DeltaMatrix& x, i64 m, i64 n) const { solve_all(a, x, m, n, false); }
  void solve_back(const DeltaMatrix& a, const DeltaMatrix& x, i64 m, i64 n) const {
    solve_all(a, x, m, n, true);
  }

 private:
  static void solve_all(const DeltaMatrix& a, const DeltaMatrix& x, i64 m, i64 n, bool back) {
    constexpr int kWide = 4;
    i64 c = 0;
    for (; c + (kWide - 1) * kLanes < n; c += kWide * kLanes)
      solve_columns<kWide>(a, x.data + c, x.ld, m, back);
    for (; c < n; c += kLanes) solve_columns<1>(a, x.data + c, x.ld, m, back);
  }
};

}  // namespace

void compute(const op::DeltaRule& op, Team& team) {
  const DeltaOperands x = operands_of(op);
  with_float(op.q.dtype, [&](auto t) {
    each_item(x.work.rows, x.v.rows * x.v.cols * x.heads.key_width, team, [&](i64 item) {
      Vectors vectors;
      DeltaHead<decltype(t), Vectors>(vectors, x, item).forward();
    });
  });
}

void compute(const op::DeltaRuleGrad& op, Team& team) {
  const DeltaOperands x = operands_of(op);
  with_float(op.q.dtype, [&](auto t) {
    each_item(x.work.rows, x.v.rows * x.v.cols * x.heads.key_width, team, [&](i64 item) {
      Vectors vectors;
      DeltaHead<decltype(t), Vectors>(vectors, x, item).backward();
    });
  });
}

}  // namespace ft::cpu::FT_TARGET
