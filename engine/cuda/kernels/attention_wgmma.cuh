// What the kernels of attention on Hopper share: a block is three warpgroups, of which the first fetches what
// the two others, with 64 rows each, multiply, in steps of 64 columns. These two drift apart, so that one
// computes powers while the other's products run.
#pragma once
#include "engine/cuda/kernels/attention_extras.cuh"
#include "engine/cuda/kernels/wgmma.cuh"

namespace ft::cuda {

constexpr int kConsumers = 2, kThreadsOfAll = (1 + kConsumers) * kGroupThreads;
constexpr int kStep = kPanelRows, kSlots = 4;
constexpr int kFetchersRegisters = 24, kConsumersRegisters = 240;
static_assert(kConsumers * kPanelRows == kMmaRows);

// A tile of 64 rows.
template <int kColumns>
constexpr int kPanels = kColumns / kPanelColumns;
template <int kColumns>
constexpr unsigned kGroupBytes = kPanels<kColumns>* kPanelBytes;

// Shared memory: a tile for each consumer of as many tensors as the block holds rows of, slots of two tiles
// for what passes by, then floats, from shared_panels() on. The extras (attention_extras.cuh) have their part
// behind all that and kGap.
constexpr unsigned kGap = kSpare + 1;  // a multiple of 4
template <int kColumns>
constexpr unsigned kOwnBytes = kConsumers* kGroupBytes<kColumns>;  // of one tensor
template <int kColumns>
constexpr unsigned kSlotBytes = 2 * kGroupBytes<kColumns>;

// Named barriers: the tiles of the block's own rows have arrived; a slot has been filled for a consumer, or
// both have read it; a consumer's warps.
constexpr int kOwnBarrier = 1, kFilledBarrier = 2, kReadBarrier = kFilledBarrier + kConsumers * kSlots,
              kGroupBarrier = kReadBarrier + kSlots;
static_assert(kGroupBarrier + kConsumers <= 16);

// What a block works on: rows [first, last), and the steps of columns [from, end) that any of them sees.
struct Work {
  Band band;
  int first, last, from, end, steps;
  // begin: a column that none of the rows sees one before.
  __device__ Work(const Band& b, const Tile& tile, int begin)
      : band(b),
        first(tile.first),
        last(lesser(tile.end, tile.first + kMmaRows)),
        from(begin),
        end(band.end(last - 1)),
        steps(steps_to(end)) {}
  __device__ int steps_to(int column) const {
    return column > from ? (column - from + kStep - 1) / kStep : 0;
  }
};

// A consumer's part: its rows, of these its warp's, and the steps [begin, stop) in which it sees anything.
struct Part {
  int consumer, group_first, group_last, first, last, begin, stop;
  explicit __device__ Part(const Work& w)
      : consumer(this_warp() / 4 - 1),
        group_first(w.first + consumer * kPanelRows),
        group_last(lesser(w.last, group_first + kPanelRows)),
        first(group_first + this_warp() % 4 * 16),
        last(lesser(w.last, first + 16)),
        begin(lesser(greater(0, group_first + w.band.low - w.from) / kStep, w.steps)),
        stop(greater(begin, group_first < group_last ? w.steps_to(w.band.end(group_last - 1)) : 0)) {}
};

// Begins to copy 64 rows from `first` on into panels; 0 from row `last` on and beyond the head's width. A
// thread copies the same chunk of each panel in every 16th row. `fetch` takes more registers than there are.
template <int kColumns, class T>
__device__ void fetch_group(unsigned to, const Head<T>& h, int first, int last) {
  using L = Layout<kPanelColumns>;
  constexpr int kRows = kGroupThreads / L::kChunks;
  const int thread = static_cast<int>(threadIdx.x), chunk = thread % L::kChunks;
  int row = thread / L::kChunks;
  to += L::offset(row, chunk);
  row += first;
  const T* from = h.data + row * h.stride + chunk * kPack;
#pragma unroll 2  // more takes more registers than there are
  for (int i = 0; i < kPanelRows / kRows; ++i) {
#pragma unroll
    for (int p = 0; p < kPanels<kColumns>; ++p)
      copy_16(to + static_cast<unsigned>(p) * kPanelBytes, from + p * kPanelColumns,
              row < last && p * kPanelColumns + chunk * kPack < h.width);
    to += static_cast<unsigned>(kRows * L::kRowBytes);
    from += kRows * h.stride;
    row += kRows;
  }
}
template <int kColumns, class T>
__device__ void fetch_own(unsigned to, const Head<T>& h, const Work& w) {
#pragma unroll
  for (int c = 0; c < kConsumers; ++c)
    fetch_group<kColumns>(to + static_cast<unsigned>(c) * kGroupBytes<kColumns>, h, w.first + c * kPanelRows,
                          w.last);
}

// The first warpgroup's side: begins copies of one step after another, each announced when it has arrived.
class Fetcher {
 public:
  // The copies of the block's own rows have begun.
  __device__ Fetcher() { commit_copies(); }
  // All steps of two tensors; also(slot, column) begins to copy what else belongs to the step at a column.
  template <int kColumns, class T, class F>
  __device__ void steps(const Work& w, unsigned slots, const Head<T>& one, const Head<T>& other, F also) {
    for (int column = w.from; column < w.end; column += kStep, ++step_) {
      const int slot = step_ % kSlots;
      if (step_ >= kSlots) meet_at(kReadBarrier + slot, kThreadsOfAll);
      const unsigned to = slots + static_cast<unsigned>(slot) * kSlotBytes<kColumns>;
      fetch_group<kColumns>(to, one, column, w.end);
      fetch_group<kColumns>(to + kGroupBytes<kColumns>, other, column, w.end);
      also(slot, column);
      commit_copies();
      wait_for_copies<1>();
      announce();
    }
  }
  __device__ void end() const {
    wait_for_copies<0>();
    announce();
  }

 private:
  // The step before the current one; before the first one are the own rows.
  __device__ void announce() const {
    show_copies_to_products();
    if (step_ == 0) return arrive_at(kOwnBarrier, kThreadsOfAll);
    const int slot = (step_ - 1) % kSlots;
#pragma unroll
    for (int c = 0; c < kConsumers; ++c) arrive_at(kFilledBarrier + kConsumers * slot + c, 2 * kGroupThreads);
  }
  int step_ = 0;
};

// A consumer's side.
class Filled {
 public:
  // steps: of the block. Returns when its own rows have arrived.
  __device__ Filled(int consumer, int steps) : consumer_(consumer), steps_(steps) {
    meet_at(kOwnBarrier, kThreadsOfAll);
  }
  // The slot of the next step, once it has arrived.
  __device__ int next() {
    const int slot = step_++ % kSlots;
    meet_at(kFilledBarrier + kConsumers * slot + consumer_, 2 * kGroupThreads);
    return slot;
  }
  // The first step that has not been read yet is now.
  __device__ void read() {
    const int step = read_++;
    if (step + kSlots < steps_) arrive_at(kReadBarrier + step % kSlots, kThreadsOfAll);
  }
  __device__ void skip(int steps) {
    for (; steps > 0; --steps) next(), read();
  }
  // All warps of this consumer are here.
  __device__ void meet() const { meet_at(kGroupBarrier + consumer_, kGroupThreads); }

 private:
  int consumer_, steps_, step_ = 0, read_ = 0;
};

// Holds a wait that follows back, as of a number, behind what dropout keeps.
__device__ inline void compute_first(const AllKept&) {}
__device__ inline void compute_first(const KeptBits<1>& kept) {
  compute_first(__builtin_bit_cast(float, kept.of[0]));
}

// Writes a warp's 16 rows through its part of a consumer's tile, which no products read any more.
template <int kColumns, class T>
__device__ void put_group(const Head<T>& y, int row, int last, unsigned tile,
                          const float (&d)[kColumns / 8][4]) {
  constexpr int kN = kPanelColumns / 8;
  const unsigned own = tile + static_cast<unsigned>(this_warp() % 4) * kTileBytes<16, kPanelColumns>;
#pragma unroll
  for (int p = 0; p < kPanels<kColumns>; ++p) {
    float part[1][kN][4];
#pragma unroll
    for (int i = 0; i < 4 * kN; ++i) part[0][i / 4][i % 4] = d[p * kN + i / 4][i % 4];
    put<1, kPanelColumns>(y.from_column(p * kPanelColumns), row, last,
                          own + static_cast<unsigned>(p) * kPanelBytes, part);
  }
}

// f(type, columns, extras): the element type, columns that hold a head, and `Bare` or `BiasAndDropout`.
template <class F>
void with_wgmma(const Attention& c, F f) {
  const bool bare = !c.bias.data && c.dropout == 0;
  if (bare)
    return with_type_and_columns(
        c, [&](auto type, auto columns) { f(type, columns, std::type_identity<Bare>{}); });
  constexpr std::integral_constant<int, kPanelColumns> columns;
  constexpr std::type_identity<BiasAndDropout> extras;
  c.q.type == DType::f16 ? f(f16{}, columns, extras) : f(bf16{}, columns, extras);
}

}  // namespace ft::cuda
