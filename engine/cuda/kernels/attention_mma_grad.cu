// The gradient of attention in bf16 or f16 on tensor cores: with p = exp(scale s - lse) and ds = p (dp -
// delta), dq = scale ds k in one pass over the queries, dk = scale ds^T q and dv = p^T dy in another over the
// keys.
//
// This takes seven products, while one pass would take five: s and dp are computed twice. But one pass would
// add every tile's part of dq to memory in f32, in an order that has to be forced to get the same results
// each time, and would need 4 more bytes for every element of dq. Two passes need neither, and sums never
// leave the registers.
//
// In both passes a block is eight warps with 16 rows each: queries in one, keys in the other. Their two left
// operands stay in registers. The other rows come in steps of 64; two steps are under way while one is
// multiplied.
//
// With heads of 256 columns, registers hold one left operand and one sum. The other operand stays in shared
// memory, dv has a separate pass (an eighth product), and a block is four warps, with steps of 16. So 80 KB
// of shared memory suffice.
#include "engine/cuda/kernels/attention_extras.cuh"

namespace ft::cuda {
namespace {

constexpr int kWarpRows = 16;

template <int kColumns>
struct Sizes {
  static constexpr bool kWide = attention_is_wide(kColumns);
  static constexpr int kRows = attention_mma_rows(kColumns), kThreads = kRows / kWarpRows * 32;
  // A step holds keys and values, or queries and dy with their lse and delta.
  static constexpr int kStep = kWide ? 16 : 64, kSlots = 3;
  static constexpr unsigned kHalf = kTileBytes<kStep, kColumns>;
  using KeyRing = Ring<kSlots, 2 * kHalf>;
  using QueryRing = Ring<kSlots, 2 * kHalf + 2 * kStep * sizeof(float)>;
  // The block's rows of the operand that registers do not hold, after the ring.
  static constexpr unsigned kBeside = kWide ? kTileBytes<kRows, kColumns> : 0;
  static constexpr unsigned kSharedOfQueries = KeyRing::kBytesOfAll + kBeside;
  static constexpr unsigned kSharedOfKeys = QueryRing::kBytesOfAll + kBeside;
  using Held1 = Held<1, kColumns>;
  using Other = std::conditional_t<kWide, InPlace<1, kColumns>, Held1>;
};

// Results of a pass over the keys.
enum class Of { keys_and_values, keys, values };

// Turns gradients of capped scores into gradients of the scores before the cap.
template <class Extras, int kN>
__device__ void through_cap(const Extras& extras, float (&ds)[1][kN][4], const float (&s)[1][kN][4]) {
#pragma unroll
  for (int n = 0; n < kN; ++n)
#pragma unroll
    for (int j = 0; j < 4; ++j) ds[0][n][j] *= extras.slope(s[0][n][j]);
}

template <class T, int kColumns, class Extras>
__global__ void __launch_bounds__(Sizes<kColumns>::kThreads, 1)
    gradient_of_queries(Attention c, MmaTensors<T> t, Turns turns) {
  using S = Sizes<kColumns>;
  constexpr int kRows = S::kRows, kThreads = S::kThreads, kStep = S::kStep, kN = kStep / 8;
  if (turns.none()) return;
  const Tile tile = c.tiles[turns.tile()];
  const Lane lane;
  const i64 number = turns.head(), head = c.first_key_head * c.group + number, key_head = head / c.group;
  const int last = lesser(tile.end, tile.first + kRows), warp = this_warp();
  const int first = tile.first + warp * kWarpRows, warp_last = lesser(last, first + kWarpRows);
  const Band band = Band::of_queries(c, tile);
  const int end = band.end(last - 1);
  Extras extras(c, S::kSharedOfQueries);
  extras.template load<T>(c, head, 1);
  const typename Extras::Kept blocks(c, tile);
  const auto step_from = [&](int at) {
    return blocks.template step_of_queries<kStep>(head, tile.first, last, at, end);
  };
  int from = step_from(blocks.aligned(extras.aligned(band.begin_of(tile, tile.first), tile.from)));
  typename S::KeyRing ring(shared_address(&shared_memory<unsigned char>()));
  const unsigned beside = S::kWide ? ring.slot(0) + S::KeyRing::kBytesOfAll : ring.slot(2);
  const Head<T> k = t.head(t.k, key_head), v = t.head(t.v, key_head);
  const auto fetch_step = [&](unsigned slot, int at) {
    if (at < end) {
      fetch<kStep, kColumns, kThreads>(slot, k, at, end);
      fetch<kStep, kColumns, kThreads>(slot + S::kHalf, v, at, end);
    }
    commit_copies();
  };
  fetch<kRows, kColumns, kThreads>(ring.slot(1), t.head(t.q, head), tile.first, last);
  fetch<kRows, kColumns, kThreads>(beside, t.head(t.dy, head), tile.first, last);
  commit_copies();
  fetch_step(ring.slot(0), from);
  float lse[2] = {}, delta[2] = {};
  for (int half = 0; half < 2; ++half) {
    const int query = first + lane.g + 8 * half;
    if (query >= last) continue;
    lse[half] = c.lse[head * c.q.rows + query] * kLog2e;
    delta[half] = extras.shrunk(c.delta[number * c.q.rows + query]);
  }
  const Places<kColumns> down = Places<kColumns>::down(), across = Places<kColumns>::across();
  const unsigned own = static_cast<unsigned>(warp) * kTileBytes<kWarpRows, kColumns>;
  wait_for_copies<1>();
  __syncthreads();  // the queries and dy have arrived
  const typename S::Held1 q{ring.slot(1) + own, down};
  const typename S::Other dy{beside + own, down};
  __syncthreads();  // they are in registers
  int next = step_from(from + kStep);
  fetch_step(ring.slot(1), next);
  float dq[1][kColumns / 8][4] = {};
  for (int after; from < end; from = next, next = after) {
    after = step_from(next + kStep);
    wait_for_copies<1>();
    __syncthreads();  // this step's keys have arrived, and the previous step's slot is free
    fetch_step(ring.last(), after);
    const unsigned keys = ring.current(), values = keys + S::kHalf;
    ring.advance();
    if (!band.any(first, warp_last, from, kStep)) continue;
    if (!blocks.any(head, first, warp_last, from, kStep)) continue;
    const auto kept = extras.template kept_of_queries<1, kN>(first, from - tile.from);
    float s[1][kN][4], ds[1][kN][4] = {};
    extras.begin(s, first, from);
    multiply<T>(s, q, keys, across);
    extras.cap(s);
    if (!band.all(first, warp_last, from, kStep)) hide(s, band, first, from);
    blocks.hide_of_queries(s, head, first, from);
    multiply<T>(ds, dy, values, across);
    extras.drop(ds, kept);
    gradients_of_scores(ds, s, delta, lse, c.scale * kLog2e);
    through_cap(extras, ds, s);
    add_product<T>(dq, ds, keys, down);
  }
  scale_all(dq[0], c.scale * extras.grown());
  __syncthreads();  // all slots are free
  put<1, kColumns>(t.head(t.dq, head), first, last, ring.slot(0) + own, dq);
}

// The 16 keys of a warp and their gradients.
template <class T, int kColumns, class Extras, Of kOf>
struct KeyRows {
  using S = Sizes<kColumns>;
  const Extras& extras;
  const typename Extras::Kept& blocks;
  Band band;
  int first, last, begin;  // of the keys, and of their sequence
  float power;
  typename S::Held1 k;
  typename S::Other v;
  Places<kColumns> down = Places<kColumns>::down(), across = Places<kColumns>::across();
  float dk[1][kColumns / 8][4] = {}, dv[1][kColumns / 8][4] = {};

  // Adds the contributions of 8 kN queries from `query` on. lse points to this lane's first value; delta is
  // kStep further on.
  template <int kN>
  __device__ void add(i64 head, unsigned q, unsigned dy, const float* lse, int query) {
    const auto kept = extras.template kept_of_keys<kN>(first - begin, query);
    float p[1][kN][4], ds[1][kN][4] = {}, seen[1][kN][4], slopes[1][kN][4];
    extras.begin(p, first, query);
    multiply<T>(p, k, q, across);
    extras.cap(p);
    if (!band.all(first, last, query, 8 * kN)) hide(p, band, first, query);
    blocks.hide_of_keys(p, head, first, query);
#pragma unroll
    for (int n = 0; n < kN; ++n)
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        slopes[0][n][j] = extras.slope(p[0][n][j]);
        seen[0][n][j] = p[0][n][j] = power_of_2(p[0][n][j] * power - lse[8 * n + j % 2] * kLog2e);
      }
    if constexpr (kOf != Of::keys) {
      extras.drop(seen, kept);
      add_product<T>(dv, seen, dy, down);
    }
    if constexpr (kOf == Of::values) return;
    multiply<T>(ds, v, dy, across);
    extras.drop(ds, kept);
#pragma unroll
    for (int n = 0; n < kN; ++n)
#pragma unroll
      for (int j = 0; j < 4; ++j)
        ds[0][n][j] =
            (ds[0][n][j] - extras.shrunk(lse[S::kStep + 8 * n + j % 2])) * p[0][n][j] * slopes[0][n][j];
    add_product<T>(dk, ds, q, down);
  }
};

// Gradients of keys and values: rows are keys, columns are queries. Loops over all query heads that share the
// key head.
template <class T, int kColumns, class Extras, Of kOf>
__global__ void __launch_bounds__(Sizes<kColumns>::kThreads, 1)
    gradient_of_keys(Attention c, MmaTensors<T> t, Turns turns) {
  using S = Sizes<kColumns>;
  constexpr int kRows = S::kRows, kThreads = S::kThreads, kStep = S::kStep;
  constexpr int kPart = S::kWide         ? kStep
                        : kColumns <= 64 ? 64
                                         : 32;  // queries at a time: as many as registers hold
  constexpr unsigned kFloats = 2 * S::kHalf;    // offsets of lse and delta in a slot
  if (turns.none()) return;
  const Tile tile = c.key_tiles[turns.tile()];
  const i64 number = turns.head(), key_head = c.first_key_head + number;
  const int last = lesser(tile.end, tile.first + kRows), warp = this_warp();
  const int first = tile.first + warp * kWarpRows, warp_last = lesser(last, first + kWarpRows);
  const Band band = Band::of_keys(c, tile);
  const int begin = band.begin_of(tile, tile.first), end = band.end(last - 1);
  Extras extras(c, S::kSharedOfKeys);
  typename S::QueryRing ring(shared_address(&shared_memory<unsigned char>()));
  const unsigned beside = S::kWide ? ring.slot(0) + S::QueryRing::kBytesOfAll : ring.slot(2);
  const typename Extras::Kept blocks(c, tile);
  const auto step_from = [&](i64 head, int at) {
    return blocks.template step_of_keys<kStep>(head, tile.first, at, end);
  };
  // The next head that shares the key head, and its first query. Every head has queries that see some of
  // these keys.
  int next_head = begin < end ? 0 : c.group, next = step_from(key_head * c.group, begin);
  const auto fetch_step = [&](unsigned slot) {
    if (next_head < c.group) {
      const i64 head = key_head * c.group + next_head;
      fetch<kStep, kColumns, kThreads>(slot, t.head(t.q, head), next, end);
      fetch<kStep, kColumns, kThreads>(slot + S::kHalf, t.head(t.dy, head), next, end);
      const int thread = static_cast<int>(threadIdx.x), query = next + thread % kStep;
      const float* of =
          thread < kStep ? c.lse + head * c.q.rows : c.delta + (number * c.group + next_head) * c.q.rows;
      if (thread < 2 * kStep)
        copy_4(slot + kFloats + static_cast<unsigned>(4 * thread), of + query, query < end);
      next = step_from(head, next + kStep);
      if (next >= end && ++next_head < c.group) next = step_from(head + 1, begin);
    }
    commit_copies();
  };
  fetch<kRows, kColumns, kThreads>(ring.slot(1), t.head(t.k, key_head), tile.first, last);
  if (kOf != Of::values) fetch<kRows, kColumns, kThreads>(beside, t.head(t.v, key_head), tile.first, last);
  commit_copies();
  fetch_step(ring.slot(0));
  const unsigned own = static_cast<unsigned>(warp) * kTileBytes<kWarpRows, kColumns>;
  wait_for_copies<1>();
  __syncthreads();  // the keys and values have arrived
  KeyRows<T, kColumns, Extras, kOf> rows{extras,
                                         blocks,
                                         band,
                                         first,
                                         warp_last,
                                         tile.begin,
                                         c.scale * kLog2e,
                                         {ring.slot(1) + own, Places<kColumns>::down()},
                                         {beside + own, Places<kColumns>::down()}};
  __syncthreads();  // they are in registers
  fetch_step(ring.slot(1));
  for (int shared_by = 0; shared_by < c.group; ++shared_by) {
    const i64 head = key_head * c.group + shared_by;
    extras.template load<T>(c, head, -1);
    for (int from = step_from(head, begin); from < end; from = step_from(head, from + kStep)) {
      wait_for_copies<1>();
      __syncthreads();  // this step's queries have arrived, and the previous step's slot is free
      fetch_step(ring.last());
      const unsigned q = ring.current(), dy = q + S::kHalf;
      const float* lse = static_cast<const float*>(shared_pointer(q + kFloats)) + 2 * Lane().t;
      ring.advance();
#pragma unroll 1
      for (int part = 0; part < kStep; part += kPart) {
        if (!band.any(first, warp_last, from + part, kPart)) continue;
        if (!blocks.any(head, from + part, lesser(from + part + kPart, end), first, kWarpRows)) continue;
        const unsigned at = static_cast<unsigned>(part * Layout<kColumns>::kRowBytes);
        rows.template add<kPart / 8>(head, q + at, dy + at, lse + part, from + part);
      }
    }
  }
  scale_all(rows.dk[0], c.scale * extras.grown());
  scale_all(rows.dv[0], extras.grown());
  __syncthreads();  // all slots are free
  const unsigned to = ring.slot(0) + own;
  if (kOf != Of::values) put<1, kColumns>(t.head(t.dk, key_head), first, last, to, rows.dk);
  if (kOf != Of::keys)
    put<1, kColumns>(t.head(t.dv, key_head), first, last,
                     to + (kOf == Of::values ? 0 : kTileBytes<kRows, kColumns>), rows.dv);
}

}  // namespace

void attention_mma_grad(cudaStream_t stream, const Attention& c) {
  with_tiles(c, [&](auto type, auto columns, auto extras) {
    using T = decltype(type);
    using E = typename decltype(extras)::type;
    const MmaTensors<T> t(c);
    const i64 bytes = c.q.rows * c.width * 4;  // of two heads: keys and values, or queries and dy
    const Turns queries(i64{c.key_heads} * c.group, bytes / c.group, c.cache),
        keys(c.key_heads, bytes * c.group, c.cache);
    using S = Sizes<columns>;
    if (c.n_tiles > 0)
      launch("attention_grad",
             {stream, queries.grid(c.n_tiles), S::kThreads, S::kSharedOfQueries + E::bytes(c)},
             gradient_of_queries<T, columns, E>, c, t, queries);
    const auto of_keys = [&](auto kernel) {
      if (c.n_key_tiles > 0)
        launch("attention_grad",
               {stream, keys.grid(c.n_key_tiles), S::kThreads, S::kSharedOfKeys + E::bytes(c)}, kernel, c, t,
               keys);
    };
    if constexpr (S::kWide) {
      of_keys(gradient_of_keys<T, columns, E, Of::keys>);
      of_keys(gradient_of_keys<T, columns, E, Of::values>);
    } else {
      of_keys(gradient_of_keys<T, columns, E, Of::keys_and_values>);
    }
  });
}

}  // namespace ft::cuda
