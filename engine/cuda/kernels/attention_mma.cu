// Attention in bf16 or f16 on tensor cores (Dao 2023). A block is four warps with 32 queries each. Scores
// stay in registers and become the left operand of the product with the values. Two tiles of keys or values
// are under way while one is multiplied. With 32 rows per warp, every fragment of keys and values that is
// loaded from shared memory serves two products. The queries are loaded each time, because sums and scores
// take all registers. With heads of 256 columns a warp has 16 queries, which stay in registers, and steps are
// half as long: two blocks still share a multiprocessor with 164 KB, and one fits 99 KB.
#include "engine/cuda/kernels/attention_extras.cuh"
#include "engine/cuda/kernels/softmax.cuh"

namespace ft::cuda {
namespace {

constexpr int kWarps = 4, kThreads = 32 * kWarps;
constexpr int kSlots = 3;  // keys, values, keys, ...

template <int kColumns>
struct Sizes {
  static constexpr bool kWide = attention_is_wide(kColumns);
  static constexpr int kM = kWide ? 1 : 2, kWarpRows = 16 * kM, kRows = kWarps * kWarpRows;
  static constexpr int kKeys = kWide ? 32 : 64, kN = kKeys / 8;  // of a step
  static constexpr unsigned kShared = kTileBytes<kRows, kColumns> + kSlots * kTileBytes<kKeys, kColumns>;
  using Queries = std::conditional_t<kColumns <= 64 || kWide, Held<kM, kColumns>, InPlace<kM, kColumns>>;
  static_assert(kRows == attention_mma_rows(kColumns));
};

template <class T, int kColumns, class Extras>
__global__ void __launch_bounds__(kThreads, 2) forward(Attention c, MmaTensors<T> t, Turns turns) {
  using S = Sizes<kColumns>;
  constexpr int kM = S::kM, kN = S::kN, kRows = S::kRows, kWarpRows = S::kWarpRows, kKeys = S::kKeys;
  if (turns.none()) return;
  const Tile tile = c.tiles[turns.tile()];
  const i64 head = c.first_key_head * c.group + turns.head(), key_head = head / c.group;
  const int last = lesser(tile.end, tile.first + kRows), warp = this_warp();
  const int first = tile.first + warp * kWarpRows, warp_last = lesser(last, first + kWarpRows);
  const Band band = Band::of_queries(c, tile);
  const int end = band.end(last - 1);
  const unsigned q = shared_address(&shared_memory<unsigned char>());
  Ring<kSlots, kTileBytes<kKeys, kColumns>> ring(q + kTileBytes<kRows, kColumns>);
  const Head<T> k = t.head(t.k, key_head), v = t.head(t.v, key_head);
  const auto fetch_keys = [&](unsigned slot, const Head<T>& x, int from) {
    if (from < end) fetch<kKeys, kColumns, kThreads>(slot, x, from, end);
    commit_copies();
  };
  Extras extras(c, S::kShared);
  extras.template load<T>(c, head, 1);
  const typename Extras::Kept blocks(c, tile);
  const auto step_from = [&](int at) {
    return blocks.template step_of_queries<kKeys>(head, tile.first, last, at, end);
  };
  int from = step_from(blocks.aligned(extras.aligned(band.begin_of(tile, tile.first), tile.from)));
  fetch<kRows, kColumns, kThreads>(q, t.head(t.q, head), tile.first, last);
  fetch_keys(ring.slot(0), k, from);
  fetch_keys(ring.slot(1), v, from);
  const Places<kColumns> down = Places<kColumns>::down(), across = Places<kColumns>::across();
  const unsigned own = q + static_cast<unsigned>(warp) * kTileBytes<kWarpRows, kColumns>;
  wait_for_copies<1>();
  __syncthreads();
  const typename S::Queries queries{own, down};
  Softmax<kM> softmax;
  float sums[kM][kColumns / 8][4] = {};
  for (int next; from < end; from = next) {
    next = step_from(from + kKeys);
    const bool sees =
        band.any(first, warp_last, from, kKeys) && blocks.any(head, first, warp_last, from, kKeys);
    float s[kM][kN][4];
    wait_for_copies<1>();
    __syncthreads();  // these keys have arrived, and the slot of the previous values is free
    fetch_keys(ring.last(), k, next);
    if (sees) {
      const auto kept = extras.template kept_of_queries<kM, kN>(first, from - tile.from);
      extras.begin(s, first, from);
      multiply<T>(s, queries, ring.current(), across);
      extras.cap(s);
      if (!band.all(first, warp_last, from, kKeys)) hide(s, band, first, from);
      blocks.hide_of_queries(s, head, first, from);
      if (float shrink[kM][2]; softmax.step(s, shrink, c.scale * kLog2e)) shrink_all(sums, shrink);
      extras.drop(s, kept);
    }
    ring.advance();
    wait_for_copies<1>();
    __syncthreads();  // these values have arrived, and the keys' slot is free
    fetch_keys(ring.last(), v, next);
    if (sees) add_product<T>(sums, s, ring.current(), down);
    ring.advance();
  }
  softmax.finish(sums, extras.grown(), c.scale, c.lse + head * c.q.rows, first, last);
  put<kM, kColumns>(t.head(t.y, head), first, last, own, sums);
}

}  // namespace

void attention_mma(cudaStream_t stream, const Attention& c) {
  with_tiles(c, [&](auto type, auto columns, auto extras) {
    using T = decltype(type);
    using E = typename decltype(extras)::type;
    const Turns turns(i64{c.key_heads} * c.group, c.k.rows * c.width * 4 / c.group, c.cache);
    launch("attention", {stream, turns.grid(c.n_tiles), kThreads, Sizes<columns>::kShared + E::bytes(c)},
           forward<T, columns, E>, c, MmaTensors<T>(c), turns);
  });
}

}  // namespace ft::cuda
