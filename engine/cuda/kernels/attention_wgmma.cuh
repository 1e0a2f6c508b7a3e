// Shared parts of the kernels of attention on Hopper. A block is three warpgroups. The first one loads
// operands; the two others, the consumers, multiply them in steps of 64 columns and have 64 rows each. The
// two drift apart, so that one computes powers while the other's products run.
#pragma once
#include "engine/cuda/kernels/attention_extras.cuh"
#include "engine/cuda/kernels/wgmma.cuh"

namespace ft::cuda {

constexpr int kConsumers = 2, kThreadsOfAll = (1 + kConsumers) * kGroupThreads;
constexpr int kStep = kPanelRows, kSlots = 4;
constexpr int kFetchersRegisters = 24, kConsumersRegisters = 240;
static_assert(kConsumers * kPanelRows == kMmaRows);

// Tiles of 64 rows.
template <int kColumns>
constexpr int kPanels = kColumns / kPanelColumns;
template <int kColumns>
constexpr unsigned kGroupBytes = kPanels<kColumns>* kPanelBytes;

// Shared memory: a tile per consumer for each tensor whose rows the block holds; slots of two tiles for the
// steps; then floats. It begins at shared_panels(). The extras (attention_extras.cuh) have their part after
// that and kGap.
constexpr unsigned kGap = kSpare + 1;  // a multiple of 4
template <int kColumns>
constexpr unsigned kOwnBytes = kConsumers* kGroupBytes<kColumns>;  // of one tensor
template <int kColumns>
constexpr unsigned kSlotBytes = 2 * kGroupBytes<kColumns>;

// Named barriers: the tiles of the block's own rows have arrived; a slot has been filled for a consumer; both
// consumers have read a slot; a consumer's warps meet.
constexpr int kOwnBarrier = 1, kFilledBarrier = 2, kReadBarrier = kFilledBarrier + kConsumers * kSlots,
              kGroupBarrier = kReadBarrier + kSlots;
static_assert(kGroupBarrier + kConsumers <= 16);

// The work of a block: rows [first, last), and the steps of columns [from, end) that any of them sees.
struct Work {
  Band band;
  int first, last, from, end, steps;
  // begin: a column before which no row sees any.
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

// A consumer's part: rows of the group and, among them, of the warp, and the steps [begin, stop) in which the
// group sees anything.
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

// Begins to copy 64 rows from `first` on into panels, with zeros from row `last` on and beyond the head's
// width. A thread copies the same chunk of each panel in every 16th row. It replaces `fetch`, which would
// take more registers than there are.
template <int kColumns, class T>
__device__ void fetch_group(unsigned to, const Head<T>& h, int first, int last) {
  using L = Layout<kPanelColumns>;
  constexpr int kRows = kGroupThreads / L::kChunks;
  const int thread = static_cast<int>(threadIdx.x), chunk = thread % L::kChunks;
  int row = thread / L::kChunks;
  to += L::offset(row, chunk);
  row += first;
  const T* from = h.data + row * h.stride + chunk * kPack;
#pragma unroll 2  // a larger factor would take more registers than there are
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

// The first warpgroup's side: begins the copies of one step after another, and announces each step when it
// has arrived.
class Fetcher {
 public:
  // Called after the copies of the block's own rows have begun.
  __device__ Fetcher() { commit_copies(); }
  // Copies all steps of two tensors; also(slot, column) begins to copy further data of the step at a column.
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
  // Announces the step before the current one; before the first step, the block's own rows.
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
  // Waits for the block's own rows. steps: number of the block's steps.
  __device__ Filled(int consumer, int steps) : consumer_(consumer), steps_(steps) {
    meet_at(kOwnBarrier, kThreadsOfAll);
  }
  // Waits for the next step and returns its slot.
  __device__ int next() {
    const int slot = step_++ % kSlots;
    meet_at(kFilledBarrier + kConsumers * slot + consumer_, 2 * kGroupThreads);
    return slot;
  }
  // Frees the slot of the first step that has not been freed yet.
  __device__ void read() {
    const int step = read_++;
    if (step + kSlots < steps_) arrive_at(kReadBarrier + step % kSlots, kThreadsOfAll);
  }
  __device__ void skip(int steps) {
    for (; steps > 0; --steps) next(), read();
  }
  // Waits until all warps of this consumer are here.
  __device__ void meet() const { meet_at(kGroupBarrier + consumer_, kGroupThreads); }

 private:
  int consumer_, steps_, step_ = 0, read_ = 0;
};

// Keeps a following wait behind the computation of dropout's bits, as for a number (wgmma.cuh).
__device__ inline void compute_first(const AllKept&) {}
__device__ inline void compute_first(const KeptBits<1>& kept) {
  compute_first(__builtin_bit_cast(float, kept.of[0]));
}

// Writes a warp's 16 rows through its part of a consumer's tile, which products no longer read.
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

// Calls f(type, columns, extras): the element type, columns that hold a head, and `Bare` or `BiasAndDropout`.
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
