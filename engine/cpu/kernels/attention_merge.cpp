// Merges attention over some keys with attention over other keys, or with a sink.
#include "engine/cpu/kernels/leaf_functions.h"
#include "engine/cpu/kernels/loops.h"

namespace ft::cpu::FT_TARGET {

void compute(const op::MergeAttention& op, Team& team) {
  const View y = view_of(op.y), other = view_of(op.other), lse = view_of(op.lse),
             other_lse = view_of(op.other_lse);
  const i64 width = y.cols / lse.rows;
  with_float(other.type, [&](auto t) {
    using T = decltype(t);
    each_row(y.rows, y.cols, team, [&](i64 r) {
      for (i64 h = 0; h < lse.rows; ++h) {
        float& own = at<float>(lse, h)[r];
        const math::SoftmaxShares s = math::softmax_shares(own, at<float>(other_lse, h)[r]);
        float* py = at<float>(y, r) + h * width;
        const T* px = at<T>(other, r) + h * width;
        each_vector(width, [&](auto part, i64 i) {
          part.store(py + i, splat(s.first) * part.load(py + i) + splat(s.second) * part.load(px + i));
        });
        own = s.lse;
      }
    });
  });
}

void compute(const op::AttentionSinks& op, Team& team) {
  const View y = view_of(op.y), lse = view_of(op.lse);
  const i64 width = y.cols / lse.rows;
  with_float(y.type, [&](auto t) {
    using T = decltype(t);
    const T* sinks = data_of<const T>(op.sinks);
    each_row(y.rows, y.cols, team, [&](i64 r) {
      for (i64 h = 0; h < lse.rows; ++h) {
        float& own = at<float>(lse, h)[r];
        const math::SoftmaxShares s = math::softmax_shares(own, to_float(sinks[h]));
        T* py = at<T>(y, r) + h * width;
        each_vector(width, [&](auto part, i64 i) { part.store(py + i, splat(s.first) * part.load(py + i)); });
        own = s.lse;
      }
    });
  });
}

void compute(const op::AttentionSinksGrad& op, Team& team) {
  const View y = view_of(op.y), dy = view_of(op.dy), lse = view_of(op.lse);
  const i64 width = y.cols / lse.rows;
  float* sums = data_of<float>(op.dsinks);
  with_float(y.type, [&](auto t) {
    using T = decltype(t);
    const T* sinks = data_of<const T>(op.sinks);
    each_item(lse.rows, y.rows * y.cols, team, [&](i64 h) {
      float sum = 0, block = 0;  // over all rows; over at most 64 rows, for smaller rounding errors
      for (i64 r = 0; r < y.rows; ++r) {
        if (r % 64 == 0) sum += block, block = 0;
        const T *py = at<T>(y, r) + h * width, *pdy = at<T>(dy, r) + h * width;
        const float share = math::sink_share(to_float(sinks[h]), at<float>(lse, h)[r]);
        block +=
            share * sum_over(width, [&](auto part, i64 i) { return part.load(py + i) * part.load(pdy + i); });
      }
      sums[h] -= sum + block;
    });
  });
}

}  // namespace ft::cpu::FT_TARGET
