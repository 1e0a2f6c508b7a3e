// The gradient of attention over tiles: probabilities are computed again from the saved logarithms (Dao et
// al. 2022). Per pair of tiles, all transposed (key, query): s = k q^T, p = 2^(s - lse), dp = v dy^T, ds = p
// (dp - delta) with delta = dy . y per query; then dv += p dy, dk += ds q, dq^T += k^T ds. The order of every
// sum is fixed: dk and dv by query head, then by query tile; dq by key tile.
#include "engine/cpu/kernels/attention_gradient.h"

namespace ft::cpu::FT_TARGET {
namespace {

// Stores two rows of a left operand, from a column on.
template <class T>
inline void store_left(Word* row, i64 ld, i64 column, Vec a, Vec b) {
  if constexpr (kPack<T> == 2) {
    store_rows(reinterpret_cast<T*>(row) + column, reinterpret_cast<T*>(row + ld) + column,
               narrow_rows(T{}, a, b));
  } else {
    store(reinterpret_cast<float*>(row) + column, a);
    store(reinterpret_cast<float*>(row + ld) + column, b);
  }
}

// Computes p and ds of one half; `at` is its first column. capped: 0, or the factor that turns capped scores
// into fractions of their cap.
template <class T>
inline void score_gradients(const Scores& x, const QueryTile& t, const Half& h, i64 at, Vec scale,
                            bool dropped, float capped) {
  for (i64 c = at; c < at + kHalf; c += kLanes) {
    const Vec lse = load(t.lse + c), delta = load(t.delta + c);
    for (i64 r = h.begin; r < h.end; r += 2) {
      Vec p[2], ds[2];
#pragma GCC unroll 2
      for (int e = 0; e < 2; ++e) {
        const i64 o = (r + e) * kBlock + c;
        p[e] = probability_of(load(x.s + o), scale, lse);
        ds[e] = p[e] * (load(x.dp + o) - delta);
        if (capped > 0) ds[e] = ds[e] * math::soft_cap_slope(load(x.s + o) * splat(capped));
        if (dropped) p[e] = p[e] * load(x.keep + o);
      }
      constexpr i64 kRow = Sizes<T>::kRowWords;
      store_left<T>(x.p + r * kRow, kRow, c, p[0], p[1]);
      store_left<T>(x.ds + r * kRow, kRow, c, ds[0], ds[1]);
      if constexpr (kPack<T> == 2) store_pair<T>(x.ds_pairs + r / 2 * kBlock + c, kBlock, ds[0], ds[1]);
    }
  }
}

// Adds one pair of tiles to dk and dv (if the key tile has them) and to dq (if the query tile has it).
template <class T>
void add_pair(const AttentionCall& call, const AttentionPart& part, const KeyTile& kt, const QueryTile& qt,
              const Scores& x, const Sizes<T>& size) {
  const Visible seen = visible(call, part, qt.head, qt.number, kt.number);
  if (seen.empty()) return;
  score_pair(call, part, kt, qt, seen, x, size);
  for (i64 h = 0, q = 0; h < 2; ++h, q += kHalf) {
    const Half& half = seen.half[h];
    if (half.empty()) continue;
    score_gradients<T>(x, qt, half, q, splat(call.scale * kLog2E), call.dropout > 0,
                       call.cap > 0 ? call.scale / call.cap : 0);
  }
  constexpr i64 P = kPack<T>, W = Sizes<T>::kRowWords;
  if (kt.dk)
    for_visible(seen, [&](i64 q, i64 queries, i64 from, i64 to) {
      const i64 at = from * size.row, k = q / P;
      product<T, true>({kt.dv + at, size.row}, Left{x.p, W, 1}.from(from, k),
                       size.right_pairs(qt.dy_pairs).from(k, 0), to - from, size.row, queries / P);
      product<T, true>({kt.dk + at, size.row}, Left{x.ds, W, 1}.from(from, k),
                       size.right_pairs(qt.q_pairs).from(k, 0), to - from, size.row, queries / P);
    });
  if (qt.dq)
    for_visible(seen, [&](i64 q, i64 queries, i64 from, i64 to) {
      const i64 k = from / P;
      product<T, true>({qt.dq + q, kBlock}, size.left_pairs(kt.k_pairs).from(0, k),
                       size.right(x.ds_pairs).from(k, q), size.width, queries, (to - from) / P);
    });
}

template <class T>
void write_key_tile(const KeyTile& t, const AttentionCall& call, const AttentionPart& part,
                    const Sizes<T>& size) {
  const i64 rows = smaller(kBlock, part.keys - t.number), row = part.key_row + t.number;
  T* dk = head_out<T>(call.dk, row, part.key_head, size.width);
  T* dv = head_out<T>(call.dv, row, part.key_head, size.width);
  for (i64 r = 0; r < rows; ++r)
    for (i64 c = 0; c < size.width; c += kLanes) {
      const i64 n = smaller(kLanes, size.width - c), at = r * size.row + c;
      store(dk + r * call.dk.stride + c, splat(call.scale) * load(t.dk + at), n);
      store(dv + r * call.dv.stride + c, load(t.dv + at), n);
    }
}
template <class T>
void write_query_tile(const QueryTile& t, const AttentionCall& call, const AttentionPart& part,
                      const Sizes<T>& size, Word* scratch) {
  unpack_columns(head_out<T>(call.dq, part.query_row + t.number, t.head, size.width), call.dq.stride, t.dq,
                 smaller(kBlock, part.queries - t.number), call.scale, size, scratch);
}

// A block of key tiles that share each packed query tile.
template <class T>
class KeyBlock {
 public:
  KeyBlock(const AttentionCall& call, const AttentionPart& part, Workspace& w)
      : call_(call),
        part_(part),
        size_(call.width),
        group_(call.heads / call.key_heads),
        scores_(take_scores<T>(w)),
        scratch_(w.words(tile())),
        query_(take_query_tile(w, size_, true)) {
    for (i64 j = 0; j < tiles_at_once(call.width); ++j) keys_[j] = take_key_tile(w, size_);
  }

  i64 tile() const { return kBlock * size_.row; }  // floats of a tile's dk or dv
  i64 group() const { return group_; }

  // Sets the memory for dk and dv of `count` tiles, which begin with number `first`.
  void place(i64 first, i64 count, float* dk, float* dv) {
    count_ = count;
    for (i64 j = 0; j < count; ++j) {
      keys_[j].number = (first + j) * kBlock;
      keys_[j].dk = dk + j * tile();
      keys_[j].dv = dv + j * tile();
    }
  }
  void clear_gradients() {
    clear(keys_[0].dk, count_ * tile());
    clear(keys_[0].dv, count_ * tile());
  }
  // Adds the contribution of one query head; computes its dq too (complete query tiles of (width, 64)) unless
  // dq is null.
  void add_head(i64 g, float* dq) {
    for (i64 j = 0; j < count_; ++j) pack_key_tile(keys_[j], call_, part_, size_);
    query_.head = part_.key_head * group_ + g;
    for (query_.number = 0; query_.number < part_.queries; query_.number += kBlock) {
      if (!seen()) continue;
      pack_query_tile(query_, call_, part_, size_);
      const i64 row = part_.query_row + query_.number + kBlock, end = part_.query_row + part_.queries;
      for (const Rows* x : {&call_.q, &call_.dy, &call_.y})
        fetch_rows<T>(*x, row, end, query_.head, size_.width);
      if (dq) query_.dq = dq + query_.number * size_.width;
      for (i64 j = 0; j < count_; ++j) add_pair(call_, part_, keys_[j], query_, scores_, size_);
    }
  }
  void write() {
    for (i64 j = 0; j < count_; ++j) write_key_tile(keys_[j], call_, part_, size_);
  }
  void write_dq(i64 g, float* dq) {
    QueryTile t{};
    t.head = part_.key_head * group_ + g;
    for (t.number = 0; t.number < part_.queries; t.number += kBlock) {
      t.dq = dq + t.number * size_.width;
      write_query_tile(t, call_, part_, size_, scratch_);
    }
  }

 private:
  bool seen() const {
    for (i64 j = 0; j < count_; ++j)
      if (!visible(call_, part_, query_.head, query_.number, keys_[j].number).empty()) return true;
    return false;
  }

  const AttentionCall& call_;
  const AttentionPart& part_;
  Sizes<T> size_;
  i64 group_, count_ = 0;
  Scores scores_;
  Word* scratch_;
  QueryTile query_;
  KeyTile keys_[tiles_at_once(1)];
};

template <class T>
void keys(const AttentionCall& call, const AttentionPart& part, i64 begin, i64 end, float* workspace) {
  Workspace w{reinterpret_cast<Word*>(workspace)};
  KeyBlock<T> block(call, part, w);
  const i64 at_once = tiles_at_once(call.width);
  float *dk = w.floats(at_once * block.tile()), *dv = w.floats(at_once * block.tile());
  for (i64 first = begin; first < end; first += at_once) {
    block.place(first, smaller(at_once, end - first), dk, dv);
    block.clear_gradients();
    for (i64 g = 0; g < block.group(); ++g) block.add_head(g, nullptr);
    block.write();
  }
}

// Computes dq of one head at a time, which needs all keys; dk and dv sum over all heads, and are therefore
// finished last.
template <class T>
void whole(const AttentionCall& call, const AttentionPart& part, i64 begin, i64 end, float* workspace) {
  Workspace w{reinterpret_cast<Word*>(workspace)};
  KeyBlock<T> block(call, part, w);
  const i64 at_once = tiles_at_once(call.width), last = block.group() - 1;
  const i64 kept = last > 0 ? end - begin : smaller(at_once, end - begin);
  float *dk = w.floats(kept * block.tile()), *dv = w.floats(kept * block.tile());
  const i64 dq_size = round_up(part.queries, kBlock) * call.width;
  float* dq = w.floats(dq_size);
  for (i64 g = 0; g <= last; ++g) {
    clear(dq, dq_size);
    for (i64 first = begin; first < end; first += at_once) {
      const i64 at = last > 0 ? (first - begin) * block.tile() : 0;
      block.place(first, smaller(at_once, end - first), dk + at, dv + at);
      if (g == 0) block.clear_gradients();
      block.add_head(g, dq);
      if (g == last) block.write();
    }
    block.write_dq(g, dq);
  }
}

template <class T>
void queries(const AttentionCall& call, const AttentionPart& part, i64 begin, i64 end, float* workspace) {
  const Sizes<T> size(call.width);
  const i64 group = call.heads / call.key_heads;
  Workspace w{reinterpret_cast<Word*>(workspace)};
  const Scores scores = take_scores<T>(w);
  Word* scratch = w.words(kBlock * size.row);
  KeyTile key = take_key_tile(w, size);
  QueryTile tiles[tiles_at_once(1)];
  for (i64 i = begin; i < end; ++i) {
    QueryTile& t = tiles[i - begin] = take_query_tile(w, size, false);
    t.number = i / group * kBlock;
    t.head = part.key_head * group + i % group;
    t.dq = w.floats(size.width * kBlock);
    clear(t.dq, size.width * kBlock);
    pack_query_tile(t, call, part, size);
  }
  for (key.number = 0; key.number < part.keys; key.number += kBlock) {
    bool packed = false;
    for (i64 i = 0; i < end - begin; ++i) {
      if (visible(call, part, tiles[i].head, tiles[i].number, key.number).empty()) continue;
      if (!packed) pack_key_tile(key, call, part, size);
      packed = true;
      add_pair(call, part, key, tiles[i], scores, size);
    }
  }
  for (i64 i = 0; i < end - begin; ++i) write_query_tile(tiles[i], call, part, size, scratch);
}

}  // namespace

void bias_f32(const AttentionCall&, const AttentionPart&, i64, i64, float*);   // attention_bias.cpp
void bias_bf16(const AttentionCall&, const AttentionPart&, i64, i64, float*);  //
void bias_f16(const AttentionCall&, const AttentionPart&, i64, i64, float*);   //

extern const AttentionBackward attention_backward;
const AttentionBackward attention_backward{{whole<float>, keys<float>, queries<float>, bias_f32},
                                           {whole<bf16>, keys<bf16>, queries<bf16>, bias_bf16},
                                           {whole<f16>, keys<f16>, queries<f16>, bias_f16}};

}  // namespace ft::cpu::FT_TARGET
