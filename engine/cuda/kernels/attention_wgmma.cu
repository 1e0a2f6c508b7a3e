// Attention on Hopper. While probabilities are multiplied with their values, the next scores are computed
// (Shah et al. 2024). Queries stay in registers.
#include "engine/cuda/kernels/attention_wgmma.cuh"
#include "engine/cuda/kernels/softmax.cuh"

namespace ft::cuda {
namespace {

template <int kColumns>
constexpr unsigned kShared = kOwnBytes<kColumns> + kSlots* kSlotBytes<kColumns> + kGap;

// A consumer's 64 queries and their results.
template <class T, int kColumns, class Extras>
struct QueryRows {
  const Work& work;
  const Part& part;
  const InRegisters<kColumns>& q;
  const Extras& extras;
  int first_key;  // of the sequence
  float power;
  Softmax<1> softmax{};
  float sums[1][kColumns / 8][4] = {}, s[1][8][4];
  unsigned p[4][4];
  // for the step whose scores are being computed
  decltype(extras.template kept_of_queries<1, 8>(0, 0)) kept{};

  __device__ int column(int step) const { return work.from + step * kStep; }
  __device__ void begin_scores_of(int step, unsigned keys) {
    if constexpr (Extras::kBegins) {
      extras.begin(s, part.first, column(step));
      settle(s[0]);
    }
    order_registers();
    begin_scores<T, Extras::kBegins>(s[0], q, keys);
    commit_products();
  }
  // Draws a step's dropout while products run.
  __device__ void draw(int step) {
    kept = extras.template kept_of_queries<1, 8>(part.first, column(step) - first_key);
    compute_first(kept);
  }
  // Begins to add the values of the step whose probabilities are in p.
  __device__ void begin_values_of(unsigned keys) {
    settle(p);
    settle(sums[0]);
    order_registers();
    begin_sum<T>(sums[0], p, keys + kGroupBytes<kColumns>);
    commit_products();
  }
  __device__ void end_values() {
    wait_for_products<0>();
    settle(sums[0]);
  }
  // Turns scores into probabilities, like Softmax::step.
  __device__ bool step(int step, float (&shrink)[1][2]) {
    settle(s[0]);
    if (!work.band.all(part.first, part.last, column(step), kStep))
      hide(s, work.band, part.first, column(step));
    const bool grew = softmax.step(s, shrink, power);
    extras.drop(s, kept);
    return grew;
  }
};

template <class T, int kColumns, class Extras>
__device__ void attend(QueryRows<T, kColumns, Extras>& rows, Filled& filled, unsigned slots) {
  const auto keys_of_next = [&] {
    return slots + static_cast<unsigned>(filled.next()) * kSlotBytes<kColumns>;
  };
  float shrink[1][2];
  unsigned keys = keys_of_next();
  rows.begin_scores_of(rows.part.begin, keys);
  rows.draw(rows.part.begin);
  wait_for_products<0>();
  rows.step(rows.part.begin, shrink);
  round_all<T>(rows.p, rows.s);
  for (int step = rows.part.begin + 1; step < rows.part.stop; ++step) {
    const unsigned next = keys_of_next();
    rows.begin_scores_of(step, next);
    rows.begin_values_of(keys);
    rows.draw(step);
    wait_for_products<1>();
    const bool grew = rows.step(step, shrink);
    compute_first(rows.softmax.total(0, 0));
    compute_first(rows.softmax.total(0, 1));
    rows.end_values();
    filled.read();
    if (grew) shrink_all(rows.sums, shrink);
    round_all<T>(rows.p, rows.s);
    keys = next;
  }
  rows.begin_values_of(keys);
  rows.end_values();
  filled.read();
}

template <class T, int kColumns, class Extras>
__global__ void __launch_bounds__(kThreadsOfAll, 1) forward(Attention c, MmaTensors<T> t, Turns turns) {
  if (turns.none()) return;
  const Tile tile = c.tiles[turns.tile()];
  const i64 head = c.first_key_head * c.group + turns.head(), key_head = head / c.group;
  Extras extras(c, kShared<kColumns>);
  const Band band = Band::of_queries(c, tile);
  const Work work(band, tile, extras.aligned(band.begin_of(tile, tile.first), tile.from));
  const unsigned own = shared_panels(), slots = own + kOwnBytes<kColumns>;
  if (this_warp() < 4) {
    give_up_registers<kFetchersRegisters>();
    fetch_own<kColumns>(own, t.head(t.q, head), work);
    extras.template copy_bias<T>(c, head, 1, kGroupThreads);  // visible to all who wait for the own rows
    Fetcher fetcher;
    fetcher.steps<kColumns>(work, slots, t.head(t.k, key_head), t.head(t.v, key_head), [](int, int) {});
    fetcher.end();
  } else {
    take_registers<kConsumersRegisters>();
    extras.take(head);
    const Part part(work);
    const unsigned mine = own + static_cast<unsigned>(part.consumer) * kGroupBytes<kColumns>;
    Filled filled(part.consumer, work.steps);
    const InRegisters<kColumns> q(mine);
    QueryRows<T, kColumns, Extras> rows{work, part, q, extras, tile.from, c.scale * kLog2e};
    filled.skip(part.begin);
    if (part.begin < part.stop) attend(rows, filled, slots);
    filled.skip(work.steps - part.stop);
    rows.softmax.finish(rows.sums, extras.grown(), c.scale, c.lse + head * c.q.rows, part.first, work.last);
    filled.meet();  // the queries are in registers
    put_group<kColumns>(t.head(t.y, head), part.first, work.last, mine, rows.sums[0]);
  }
}

}  // namespace

void attention_wgmma(cudaStream_t stream, const Attention& c) {
  with_wgmma(c, [&](auto type, auto columns, auto extras) {
    using T = decltype(type);
    using E = typename decltype(extras)::type;
    const Turns turns(i64{c.key_heads} * c.group, c.k.rows * c.width * 4 / c.group, c.cache);
    launch("attention", {stream, turns.grid(c.n_tiles), kThreadsOfAll, kShared<columns> + E::bytes(c)},
           forward<T, columns, E>, c, MmaTensors<T>(c), turns);
  });
}

}  // namespace ft::cuda
