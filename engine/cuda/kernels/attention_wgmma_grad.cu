// The gradient of attention on Hopper: the two passes of attention_mma_grad.cu, with products of warpgroups.
// Queries, and their dy, stay in registers. Keys and values stay in shared memory, because their pass has two
// sums.
#include "engine/cuda/kernels/attention_wgmma.cuh"

namespace ft::cuda {
namespace {

constexpr unsigned kFloatsBytes = 2 * kStep * sizeof(float);  // lse and delta of a step of queries
template <int kColumns>
constexpr unsigned kSharedOfQueries = 2 * kOwnBytes<kColumns> + kSlots* kSlotBytes<kColumns> + kGap;
template <int kColumns>
constexpr unsigned kSharedOfKeys = kSharedOfQueries<kColumns> + kSlots* kFloatsBytes;

// A consumer's 64 queries and their gradient.
template <class T, int kColumns, class Extras>
struct QueryRows {
  // Avoids registers with 64 columns: ptxas 13.0 overwrites left operands in registers with the sum's
  // operand.
  using Own = std::conditional_t<(kColumns > kPanelColumns), InRegisters<kColumns>, InPanels<kColumns>>;
  const Work& work;
  const Part& part;
  const Own &q, &dy;
  const Extras& extras;
  int first_key;                  // of the sequence
  float power, lse[2], delta[2];  // lse: in powers of 2
  float dq[kColumns / 8][4] = {};
  unsigned a[4][4];

  // Begins to add the contribution of a step's keys, after the previous step's sum. It calls `read` when that
  // sum is complete.
  template <class F>
  __device__ void begin(int column, unsigned keys, F read) {
    float s[1][8][4], ds[1][8][4];
    if constexpr (Extras::kBegins) {
      extras.begin(s, part.first, column);
      settle(s[0]);
    }
    order_registers();
    begin_scores<T, Extras::kBegins>(s[0], q, keys);
    commit_products();
    begin_scores<T>(ds[0], dy, keys + kGroupBytes<kColumns>);
    commit_products();
    const auto kept = extras.template kept_of_queries<1, 8>(part.first, column - first_key);
    compute_first(kept);
    wait_for_products<1>();
    settle(s[0]);
    read();
    if (!work.band.all(part.first, part.last, column, kStep)) hide(s, work.band, part.first, column);
#pragma unroll
    for (int i = 0; i < 32; ++i) s[0][i / 4][i % 4] = power_of_2(s[0][i / 4][i % 4] * power - lse[i % 4 / 2]);
#pragma unroll
    for (int n = 1; n < 8; n += 2) compute_first(s[0][n][n / 2]);
    wait_for_products<0>();
    settle(ds[0]);
    extras.drop(ds, kept);
#pragma unroll
    for (int i = 0; i < 32; ++i)
      ds[0][i / 4][i % 4] = (ds[0][i / 4][i % 4] - delta[i % 4 / 2]) * s[0][i / 4][i % 4];
    round_all<T>(a, ds);
    settle(a);
    settle(dq);
    order_registers();
    begin_sum<T>(dq, a, keys);
    commit_products();
  }
  __device__ void end() {
    wait_for_products<0>();
    settle(dq);
  }
};

template <class T, int kColumns, class Extras>
__global__ void __launch_bounds__(kThreadsOfAll, 1)
    gradient_of_queries(Attention c, MmaTensors<T> t, Turns turns) {
  if (turns.none()) return;
  const Tile tile = c.tiles[turns.tile()];
  const i64 number = turns.head(), head = c.first_key_head * c.group + number, key_head = head / c.group;
  Extras extras(c, kSharedOfQueries<kColumns>);
  const Band band = Band::of_queries(c, tile);
  const Work work(band, tile, extras.aligned(band.begin_of(tile, tile.first), tile.from));
  const unsigned own = shared_panels(), slots = own + 2 * kOwnBytes<kColumns>;
  if (this_warp() < 4) {
    give_up_registers<kFetchersRegisters>();
    fetch_own<kColumns>(own, t.head(t.q, head), work);
    fetch_own<kColumns>(own + kOwnBytes<kColumns>, t.head(t.dy, head), work);
    extras.template copy_bias<T>(c, head, 1, kGroupThreads);  // visible to all who wait for the own rows
    Fetcher fetcher;
    fetcher.steps<kColumns>(work, slots, t.head(t.k, key_head), t.head(t.v, key_head), [](int, int) {});
    fetcher.end();
  } else {
    take_registers<kConsumersRegisters>();
    using Rows = QueryRows<T, kColumns, Extras>;
    extras.take(head);
    const Part part(work);
    const unsigned mine = own + static_cast<unsigned>(part.consumer) * kGroupBytes<kColumns>;
    Filled filled(part.consumer, work.steps);
    const typename Rows::Own q{mine}, dy{mine + kOwnBytes<kColumns>};
    Rows rows{work, part, q, dy, extras, tile.from, c.scale * kLog2e, {}, {}};
    for (int half = 0; half < 2; ++half) {
      const int query = part.first + Lane().g + 8 * half;
      if (query >= work.last) continue;
      rows.lse[half] = c.lse[head * c.q.rows + query] * kLog2e;
      rows.delta[half] = extras.shrunk(c.delta[number * c.q.rows + query]);
    }
    filled.skip(part.begin);
    for (int step = part.begin; step < part.stop; ++step) {
      const unsigned keys = slots + static_cast<unsigned>(filled.next()) * kSlotBytes<kColumns>;
      rows.begin(work.from + step * kStep, keys, [&] {
        if (step > part.begin) filled.read();
      });
    }
    rows.end();
    if (part.begin < part.stop) filled.read();
    filled.skip(work.steps - part.stop);
    scale_all(rows.dq, c.scale * extras.grown());
    filled.meet();  // products no longer read the queries
    put_group<kColumns>(t.head(t.dq, head), part.first, work.last, mine, rows.dq);
  }
}

// A consumer's 64 keys and their gradients.
template <class T, int kColumns, class Extras>
struct KeyRows {
  const Work& work;
  const Part& part;
  InPanels<kColumns> k, v;
  const Extras& extras;
  int first_key;  // of the sequence
  float power;
  float dk[kColumns / 8][4] = {}, dv[kColumns / 8][4] = {};

  // Adds the contribution of 64 queries. lse points to this lane's first value; delta is kStep further on.
  __device__ void add(int column, unsigned q, const float* lse) {
    const unsigned dy = q + kGroupBytes<kColumns>;
    float p[1][8][4], ds[1][8][4];
    unsigned a[4][4], b[4][4];
    if constexpr (Extras::kBegins) {
      extras.begin(p, part.first, column);
      settle(p[0]);
    }
    order_registers();
    begin_scores<T, Extras::kBegins>(p[0], k, q);
    commit_products();
    begin_scores<T>(ds[0], v, dy);
    commit_products();
    const auto kept = extras.template kept_of_keys<8>(part.first - first_key, column);
    compute_first(kept);
    wait_for_products<1>();
    settle(p[0]);
    if (!work.band.all(part.first, part.last, column, kStep)) hide(p, work.band, part.first, column);
#pragma unroll
    for (int i = 0; i < 32; ++i)
      p[0][i / 4][i % 4] = power_of_2(p[0][i / 4][i % 4] * power - lse[8 * (i / 4) + i % 2] * kLog2e);
    round_dropped(a, p, kept);
    settle(a);
    settle(dv);
    order_registers();
    begin_sum<T>(dv, a, dy);
    commit_products();
    wait_for_products<1>();
    settle(ds[0]);
    extras.drop(ds, kept);
#pragma unroll
    for (int i = 0; i < 32; ++i)
      ds[0][i / 4][i % 4] =
          (ds[0][i / 4][i % 4] - extras.shrunk(lse[kStep + 8 * (i / 4) + i % 2])) * p[0][i / 4][i % 4];
    round_all<T>(b, ds);
    settle(b);
    settle(dk);
    order_registers();
    begin_sum<T>(dk, b, q);
    commit_products();
    wait_for_products<0>();
    settle(dv);
    settle(dk);
  }

 private:
  template <class Kept>
  __device__ void round_dropped(unsigned (&a)[4][4], const float (&p)[1][8][4], const Kept& kept) const {
    float rest[1][8][4];
#pragma unroll
    for (int i = 0; i < 32; ++i) rest[0][i / 4][i % 4] = p[0][i / 4][i % 4];
    extras.drop(rest, kept);
    round_all<T>(a, rest);
  }
};

// Gradients of keys and values: rows are keys, columns are queries. Loops over all query heads that share the
// key head.
template <class T, int kColumns, class Extras>
__global__ void __launch_bounds__(kThreadsOfAll, 1)
    gradient_of_keys(Attention c, MmaTensors<T> t, Turns turns) {
  if (turns.none()) return;
  const Tile tile = c.key_tiles[turns.tile()];
  const i64 number = turns.head(), key_head = c.first_key_head + number;
  Extras extras(c, kSharedOfKeys<kColumns>);
  const Band band = Band::of_keys(c, tile);
  const Work work(band, tile, band.begin_of(tile, tile.first));
  const unsigned own = shared_panels(), slots = own + 2 * kOwnBytes<kColumns>,
                 floats = slots + kSlots * kSlotBytes<kColumns>;
  if (this_warp() < 4) {
    give_up_registers<kFetchersRegisters>();
    fetch_own<kColumns>(own, t.head(t.k, key_head), work);
    fetch_own<kColumns>(own + kOwnBytes<kColumns>, t.head(t.v, key_head), work);
    extras.template copy_bias<T>(c, key_head, -1, kGroupThreads);  // with a bias, heads do not share keys
    Fetcher fetcher;
    for (int shared_by = 0; shared_by < c.group; ++shared_by) {
      const i64 head = key_head * c.group + shared_by;
      const int thread = static_cast<int>(threadIdx.x);
      const float* of =
          thread < kStep ? c.lse + head * c.q.rows : c.delta + (number * c.group + shared_by) * c.q.rows;
      fetcher.steps<kColumns>(work, slots, t.head(t.q, head), t.head(t.dy, head), [&](int slot, int column) {
        const int query = lesser(column + thread % kStep, work.end - 1);  // queries beyond the end are hidden
        copy_4(floats + static_cast<unsigned>(slot) * kFloatsBytes + static_cast<unsigned>(4 * thread),
               of + query, true);
      });
    }
    fetcher.end();
  } else {
    take_registers<kConsumersRegisters>();
    const Part part(work);
    const unsigned k = own + static_cast<unsigned>(part.consumer) * kGroupBytes<kColumns>,
                   v = k + kOwnBytes<kColumns>;
    KeyRows<T, kColumns, Extras> rows{work, part, {k}, {v}, extras, tile.begin, c.scale * kLog2e};
    Filled filled(part.consumer, work.steps * c.group);
    for (int shared_by = 0; shared_by < c.group; ++shared_by) {
      extras.take(key_head * c.group + shared_by);
      filled.skip(part.begin);
      for (int step = part.begin; step < part.stop; ++step) {
        const auto slot = static_cast<unsigned>(filled.next());
        const auto* lse = static_cast<const float*>(shared_pointer(floats + slot * kFloatsBytes));
        rows.add(work.from + step * kStep, slots + slot * kSlotBytes<kColumns>, lse + 2 * Lane().t);
        filled.read();
      }
      filled.skip(work.steps - part.stop);
    }
    scale_all(rows.dk, c.scale * extras.grown());
    scale_all(rows.dv, extras.grown());
    filled.meet();  // products no longer read the keys and values
    put_group<kColumns>(t.head(t.dk, key_head), part.first, work.last, k, rows.dk);
    put_group<kColumns>(t.head(t.dv, key_head), part.first, work.last, v, rows.dv);
  }
}

}  // namespace

void attention_wgmma_grad(cudaStream_t stream, const Attention& c) {
  with_wgmma(c, [&](auto type, auto columns, auto extras) {
    using T = decltype(type);
    using E = typename decltype(extras)::type;
    const MmaTensors<T> t(c);
    const i64 bytes = c.q.rows * c.width * 4;  // of two heads: keys and values, or queries and dy
    const Turns queries(i64{c.key_heads} * c.group, bytes / c.group, c.cache),
        keys(c.key_heads, bytes * c.group, c.cache);
    if (c.n_tiles > 0)
      launch("attention_grad",
             {stream, queries.grid(c.n_tiles), kThreadsOfAll, kSharedOfQueries<columns> + E::bytes(c)},
             gradient_of_queries<T, columns, E>, c, t, queries);
    if (c.n_key_tiles > 0)
      launch("attention_grad",
             {stream, keys.grid(c.n_key_tiles), kThreadsOfAll, kSharedOfKeys<columns> + E::bytes(c)},
             gradient_of_keys<T, columns, E>, c, t, keys);
  });
}

}  // namespace ft::cuda
