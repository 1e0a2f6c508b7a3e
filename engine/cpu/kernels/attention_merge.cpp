// Merges attention over some keys with attention over other keys.
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

}  // namespace ft::cpu::FT_TARGET
