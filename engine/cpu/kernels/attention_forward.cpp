// softmax(scale q k^T) v over tiles, with running maxima and sums (Milakov and Gimelshein 2018; Dao et al.
// 2022). A packed tile of keys and values serves several tiles of queries.
#include "engine/cpu/kernels/attention_scores.h"

namespace ft::cpu::FT_TARGET {
namespace {

constexpr int kHalfVectors = kHalf / kLanes;

// The state of a query tile.
template <class T>
struct QueryTile {
  i64 number, head;  // of its first query; query head
  Word* q;           // columns
  float* sums;       // (width, 64) of probabilities times values, relative to the maxima
  float* top;        // (64) maxima, before scaling
  float* total;      // (64) sums of probabilities
};

// Turns one half of a tile of scores into probabilities, and rescales the query tile's sums to the new
// maxima. s, p, keep (dropout's factors, null: none) and the tile's arrays begin at the half's first column.
template <class T>
inline void softmax_half(const float* s, Word* p, const float* keep, const Half& h, float* top, float* total,
                         float* sums, i64 width, Vec scale) {
  Vec t[2][kHalfVectors], now[kHalfVectors], l[kHalfVectors];
  for (int c = 0; c < kHalfVectors; ++c) t[0][c] = t[1][c] = load(top + c * kLanes);
  for (i64 r = h.begin; r < h.end; r += 2)
    for (int e = 0; e < 2; ++e)
      for (int c = 0; c < kHalfVectors; ++c) t[e][c] = max(t[e][c], load(s + (r + e) * kBlock + c * kLanes));
  for (int c = 0; c < kHalfVectors; ++c) {
    const Vec before = load(top + c * kLanes);
    now[c] = max(t[0][c], t[1][c]);
    const Vec shrink = probability((before - now[c]) * scale);
    l[c] = load(total + c * kLanes) * shrink;
    store(top + c * kLanes, now[c]);
    if (any(less(before, now[c])))
      for (i64 d = 0; d < width; ++d) {
        float* at = sums + d * kBlock + c * kLanes;
        store(at, shrink * load(at));
      }
  }
  for (i64 r = h.begin; r < h.end; r += 2)
    for (int c = 0; c < kHalfVectors; ++c) {
      const float* at = s + r * kBlock + c * kLanes;
      Vec e0 = probability((load(at) - now[c]) * scale);
      Vec e1 = probability((load(at + kBlock) - now[c]) * scale);
      l[c] = l[c] + (e0 + e1);
      if (keep) {
        e0 = e0 * load(keep + r * kBlock + c * kLanes);
        e1 = e1 * load(keep + (r + 1) * kBlock + c * kLanes);
      }
      store_pair<T>(p + r / kPack<T> * kBlock + c * kLanes, kBlock, e0, e1);
    }
  for (int c = 0; c < kHalfVectors; ++c) store(total + c * kLanes, l[c]);
}

template <class T>
void finish(const AttentionCall& call, const AttentionPart& part, const QueryTile<T>& t, const Sizes<T>& size,
            Word* scratch) {
  const i64 rows = smaller(kBlock, part.queries - t.number), row = part.query_row + t.number;
  for (i64 c = 0; c < kBlock; c += kLanes) {
    const Vec inverse = splat(1.0f) / load(t.total + c);
    for (i64 d = 0; d < size.width; ++d) {
      float* at = t.sums + d * kBlock + c;
      store(at, inverse * load(at));
    }
  }
  unpack_columns(head_out<T>(call.y, row, t.head, size.width), call.y.stride, t.sums, rows, 1.0f, size,
                 scratch);
  float* lse = call.lse + t.head * call.lse_stride + row;
  for (i64 i = 0; i < rows; ++i) lse[i] = t.top[i] * call.scale + __builtin_logf(t.total[i]);
}

// A tile of keys, which is packed when the first query tile needs it.
template <class T>
struct KeyTile {
  i64 number;
  Word *k, *v;  // rows; pairs
};

struct ScoreTile {
  float* s;     // (key, query)
  Word* p;      // probabilities, paired by keys
  float* keep;  // (key, query)
};

template <class T>
void add_tile(const AttentionCall& call, const AttentionPart& part, const KeyTile<T>& kt,
              const QueryTile<T>& qt, const Visible& seen, const Sizes<T>& size, const ScoreTile& x) {
  float* s = x.s;
  Word* p = x.p;
  TileBias bias;
  if (call.bias.data) load_bias<T>(bias, call, qt.head, qt.number - kt.number);
  for_visible(seen, [&](i64 q, i64 queries, i64 from, i64 to) {
    product<T, false>({s + from * kBlock + q, kBlock}, size.left(kt.k).from(from, 0),
                      size.right(qt.q).from(0, q), to - from, queries, size.words);
  });
  for (i64 h = 0, q = 0; h < 2; ++h, q += kHalf) {
    const Half& half = seen.half[h];
    if (half.empty()) continue;
    complete_scores(s, half, call, part, bias, q, {qt.head, qt.number, kt.number});
    float* keep = call.dropout > 0 ? x.keep + q : nullptr;
    if (keep) fill_keep(keep, half, call, qt.head, part.query_row + qt.number + q, kt.number);
    softmax_half<T>(s + q, p + q, keep, half, qt.top + q, qt.total + q, qt.sums + q, size.width,
                    splat(call.scale * kLog2E));
  }
  for_visible(seen, [&](i64 q, i64 queries, i64 from, i64 to) {
    const i64 k = from / kPack<T>;
    product<T, true>({qt.sums + q, kBlock}, size.left_pairs(kt.v).from(0, k), size.right(p).from(k, q),
                     size.width, queries, (to - from) / kPack<T>);
  });
}

template <class T>
void forward(const AttentionCall& call, const AttentionPart& part, i64 begin, i64 end, float* workspace) {
  const Sizes<T> size(call.width);
  const i64 group = call.heads / call.key_heads;
  Workspace w{reinterpret_cast<Word*>(workspace)};
  QueryTile<T> tiles[tiles_at_once(1)];
  for (i64 i = begin; i < end; ++i) {
    QueryTile<T>& t = tiles[i - begin];
    t.number = i / group * kBlock;
    t.head = part.key_head * group + i % group;
    t.q = w.words(size.words * kBlock);
    t.sums = w.floats(size.width * kBlock);
    t.total = w.floats(kBlock);
    t.top = w.floats(kBlock);
    pack_columns(t.q, size, head<T>(call.q, part.query_row + t.number, t.head, size.width), call.q.stride,
                 smaller(kBlock, part.queries - t.number));
    clear(t.sums, size.width * kBlock);
    clear(t.total, kBlock);
    for (i64 c = 0; c < kBlock; c += kLanes) store(t.top + c, splat(kFloor));
  }
  KeyTile<T> key{0, w.words(kBlock * size.row), w.words(kBlock * size.row)};
  Word* scratch = w.words(kBlock * size.row);
  const ScoreTile scores{w.floats(kBlock * kBlock), w.words(kBlock * kBlock), w.floats(kBlock * kBlock)};

  for (; key.number < part.keys; key.number += kBlock) {
    bool packed = false;
    for (i64 i = 0; i < end - begin; ++i) {
      const Visible seen = visible(call, part, tiles[i].head, tiles[i].number, key.number);
      if (seen.empty()) continue;
      if (!packed) {
        const i64 rows = smaller(kBlock, part.keys - key.number), row = part.key_row + key.number;
        pack_rows(key.k, size, head<T>(call.k, row, part.key_head, size.width), call.k.stride, rows);
        pack_pairs(key.v, size, head<T>(call.v, row, part.key_head, size.width), call.v.stride, rows);
        fetch_rows<T>(call.k, row + kBlock, part.key_row + part.keys, part.key_head, size.width);
        fetch_rows<T>(call.v, row + kBlock, part.key_row + part.keys, part.key_head, size.width);
        packed = true;
      }
      add_tile(call, part, key, tiles[i], seen, size, scores);
    }
  }
  for (i64 i = 0; i < end - begin; ++i) finish(call, part, tiles[i], size, scratch);
}

}  // namespace

extern const AttentionForward attention_forward;
const AttentionForward attention_forward{forward<float>, forward<bf16>, forward<f16>};

}  // namespace ft::cpu::FT_TARGET
