// The gradient of the bias by distance: sums of ds = p (dp - delta) along the diagonals of a head's scores.
// It is a separate pass, so that one thread adds up a head's sums in one order: two more products a pair of
// tiles if the bias is trained.
#include "engine/cpu/kernels/attention_gradient.h"

namespace ft::cpu::FT_TARGET {
namespace {

// sums[63 + column - row] += ds of one half, whose first column is `first`.
inline void add_diagonals(float* sums, const Scores& x, const QueryTile& t, const Half& h, i64 first,
                          Vec scale) {
  for (i64 c = first; c < first + kHalf; c += kLanes) {
    const Vec lse = load(t.lse + c), delta = load(t.delta + c);
    for (i64 r = h.begin; r < h.end; ++r) {
      const i64 at = r * kBlock + c;
      const Vec ds = probability_of(load(x.s + at), scale, lse) * (load(x.dp + at) - delta);
      float* sum = sums + kBlock - 1 + c - r;
      store(sum, load(sum) + ds);
    }
  }
}

template <class T>
void bias(const AttentionCall& call, const AttentionPart& part, i64 begin, i64 end, float* workspace) {
  const Sizes<T> size(call.width);
  Workspace w{reinterpret_cast<Word*>(workspace)};
  const Scores scores = take_scores<T>(w);
  KeyTile key = take_key_tile(w, size);
  QueryTile query = take_query_tile(w, size, false);
  const Vec scale = splat(call.scale * kLog2E);
  for (query.head = begin; query.head < end; ++query.head)
    for (key.number = 0; key.number < part.keys; key.number += kBlock) {
      pack_key_tile(key, call, part, size);
      for (query.number = 0; query.number < part.queries; query.number += kBlock) {
        const Visible seen = visible(call, part, query.head, query.number, key.number);
        if (seen.empty()) continue;
        pack_query_tile(query, call, part, size);
        score_pair(call, part, key, query, seen, scores, size);
        float sums[2 * kBlock] = {};
        for (i64 h = 0; h < 2; ++h)
          if (!seen.half[h].empty()) add_diagonals(sums, scores, query, seen.half[h], h * kHalf, scale);
        for (i64 i = 0; i < 2 * kBlock; ++i) {
          const i64 row = bias_row(call, kBlock - 1 - i - (query.number - key.number));
          call.dbias[row * call.dbias_stride + query.head] += sums[i];
        }
      }
    }
}

}  // namespace

void bias_f32(const AttentionCall& call, const AttentionPart& part, i64 begin, i64 end, float* workspace) {
  bias<float>(call, part, begin, end, workspace);
}
void bias_bf16(const AttentionCall& call, const AttentionPart& part, i64 begin, i64 end, float* workspace) {
  bias<bf16>(call, part, begin, end, workspace);
}
void bias_f16(const AttentionCall& call, const AttentionPart& part, i64 begin, i64 end, float* workspace) {
  bias<f16>(call, part, begin, end, workspace);
}

}  // namespace ft::cpu::FT_TARGET
