// A block that follows a sequence from chunk to chunk with some columns of a state, or of its gradient, in
// shared memory.
#pragma once
#include "engine/core/error.h"
#include "engine/cuda/kernels/delta_tiles.cuh"

namespace ft::cuda {

// Shared memory that every GPU since sm_80 gives a block.
constexpr std::size_t kDeltaShared = 99 << 10;

// kN: columns of the slice. kStaged: a chunk's queries and keys are copied to shared memory; if they do
// not fit, they are read from global memory.
template <class T, int kN, bool kStaged>
class DeltaSlice {
 public:
  static constexpr int kLd = kN + 8;                     // no bank conflicts in right operands
  static constexpr int kTiles = kN >= 16 ? kN / 16 : 1;  // of a warp, in products whose rows are the chunk's
  static constexpr bool kExact = sizeof(T) == 2;
  using Sums = float[kTiles][4];

  static int padded(i64 key_width) { return static_cast<int>(ceil_div(key_width, 16) * 16); }
  static std::size_t bytes(i64 key_width) {
    const std::size_t n = static_cast<std::size_t>(padded(key_width)), ld = n + 16 / sizeof(T);
    return sizeof(DeltaFactors) + (n + 2 * kChunk) * kLd * sizeof(float) +
           (kStaged ? 2 * kChunk * ld * sizeof(T) : 0);
  }

  __device__ DeltaSlice(const DeltaOperands& x, const DeltaGpuRoom& room)
      : x_(x),
        room_(room),
        head_(blockIdx.y),
        key_head_(head_ / (x.heads.values / x.heads.keys)),
        first_(static_cast<i64>(blockIdx.z) * kN),
        keys_(static_cast<int>(x.heads.key_width)),
        padded_((keys_ + 15) / 16 * 16),
        values_(static_cast<int>(x.heads.value_width - first_ < kN ? x.heads.value_width - first_ : kN)),
        ld_(padded_ + 16 / static_cast<int>(sizeof(T))),
        warp_(this_warp()),
        row_(warp_ % 4 * 16),
        column_(warp_ / 4 * 8 * kTiles),
        by(shared_memory<DeltaFactors>()) {
    unsigned char* at = &shared_memory<unsigned char>() + sizeof(DeltaFactors);
    state_ = reinterpret_cast<float*>(at);
    a = state_ + padded_ * kLd;
    b = a + kChunk * kLd;
    q_ = reinterpret_cast<T*>(b + kChunk * kLd);
    k_ = q_ + kChunk * ld_;
  }

  // True if the warp has a part in products whose rows are the chunk's.
  __device__ bool works() const { return column_ < kN; }

  // ---- the state
  __device__ void load_state(const float* from) {  // null: zeros
    each_of_state(padded_, kN, [&](int r, int c) {
      state(r, c) = from && r < keys_ && c < values_ ? from[r * x_.heads.value_width + c] : 0;
    });
  }
  __device__ void store_state(float* to) const {
    each_of_state(keys_, values_, [&](int r, int c) { to[r * x_.heads.value_width + c] = state(r, c); });
  }
  // The slice of a state in a row of memory or states.
  __device__ float* stored(const View& in, i64 row) const {
    return element<float>(in, row, head_ * x_.heads.key_width * x_.heads.value_width + first_);
  }
  __device__ float* stored(const DeltaMatrix& in, i64 row) const {
    return in.row(row) + head_ * x_.heads.key_width * x_.heads.value_width + first_;
  }

  // ---- chunks
  // Begins to copy the chunk's queries and keys; finish() waits for them. Loads the factors. All threads
  // must have left the chunk before.
  __device__ void begin(i64 row, int count, bool queries) {
    at_ = row;
    count_ = count;
    if constexpr (kStaged) {
      if (queries) copy(q_, x_.q);
      copy(k_, x_.k);
      commit_copies();
    }
    by.load(x_, room_, row, count, head_);
  }
  __device__ void finish() const {
    if constexpr (kStaged) wait_for_copies<0>();
    __syncthreads();
  }
  // The warp's rows of a lower triangular matrix (64, 64) of the chunk, or of its transpose, as left
  // operands.
  struct Triangle {
    float of[kChunk / 8][4];
  };
  template <bool kTransposed>
  __device__ Triangle triangle(const DeltaMatrix& m) const {
    const Lane lane;
    Triangle y;
#pragma unroll
    for (int s = 0; s < kChunk / 8; ++s)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int r = row_ + lane.g + i % 2 * 8, c = 8 * s + lane.t + i / 2 * 4;
        const int down = kTransposed ? c : r, across = kTransposed ? r : c;
        y.of[s][i] = across <= down && down < count_ ? m(at_ + down, head_ * kChunk + across) : 0;
      }
    return y;
  }
  // sum += the triangle times `right` (64, kLd).
  template <bool kTransposed>
  __device__ void add(Sums& sum, const Triangle& left, const float* right) const {
#pragma unroll
    for (int s = 0; s < kChunk / 8; ++s) {
      if (kTransposed ? 8 * s + 7 < row_ : 8 * s >= row_ + 16) continue;
      if (8 * s >= count_ || row_ >= count_ || !works()) continue;
      DeltaLeftPart<false> part;
#pragma unroll
      for (int i = 0; i < 4; ++i) part.set(i, left.of[s][i]);
      add_product(sum, part, DeltaRightPart<false, kTiles>([&](int r, int c) {
                    return right[(8 * s + r) * kLd + column_ + c];
                  }));
    }
  }
  // read += K S and, if wanted, asked += Q S, of rows that are not normalised.
  template <bool kAsked>
  __device__ void read(Sums& read, Sums& asked) const {
    if (row_ >= count_ || !works()) return;
#pragma unroll 2
    for (int p = 0; p < padded_; p += 8) {
      const DeltaRightPart<false, kTiles> right([&](int r, int c) { return state(p + r, column_ + c); });
      add_product(read, left_part<kExact>([&](int r, int c) { return k(row_ + r, p + c); }), right);
      if constexpr (kAsked)
        add_product(asked, left_part<kExact>([&](int r, int c) { return q(row_ + r, p + c); }), right);
    }
  }
  // Replaces the state by keep state + the sum of terms(p, row, column, left, sums); see plus().
  __device__ void advance(const auto& add_terms) {
    const float keep = by.up[count_ - 1];
    for (int m = warp_ * 16; m < padded_; m += kDeltaThreads / 32 * 16) {
      float sum[kN / 8][4];
      each_number(sum, [&](int r, int c, float& s) { s = keep * state(m + r, c); });
      for (int p = 0; p < count_; p += 8) add_terms(sum, m, p);
      each_number(sum, [&](int r, int c, float& s) { state(m + r, c) = s; });
    }
  }
  // sum += rows m.. of K^T or Q^T, of eight rows p.. of the chunk, times `right` (64, kLd) with rows
  // scaled.
  __device__ void plus(float (&sum)[kN / 8][4], int m, int p, bool queries, const float* right,
                       const auto& factor) const {
    add_product(sum,
                left_part<kExact>([&](int r, int c) { return queries ? q(p + c, m + r) : k(p + c, m + r); }),
                DeltaRightPart<false, kN / 8>(
                    [&](int r, int c) { return factor(p + r) * right[(p + r) * kLd + c]; }));
  }
  // Calls f(row, column, number) for the lane's numbers of a sum; of all 64 rows, and columns of the
  // slice.
  __device__ void each(Sums& sum, const auto& f) const {
    if (works()) each_number(sum, [&](int r, int c, float& s) { f(row_ + r, column_ + c, s); });
  }
  // Loads the lane's numbers of the slice's columns of v or of a tensor like it.
  __device__ void load(Sums& y, const View& from) const {
    each(y, [&](int r, int c, float& s) {
      s = r < count_ && c < values_ ? widened(*element<T>(from, at_ + r, column_of(c))) : 0;
    });
  }
  __device__ void store(const View& to, Sums& x) const {
    each(x, [&](int r, int c, float& s) {
      if (r < count_ && c < values_) round_to(*element<T>(to, at_ + r, column_of(c)), s);
    });
  }

 private:
  __device__ float& state(int r, int c) const { return state_[r * kLd + c]; }
  __device__ float q(int r, int c) const { return operand(q_, x_.q, r, c); }
  __device__ float k(int r, int c) const { return operand(k_, x_.k, r, c); }
  __device__ float operand(const T* staged, const View& x, int r, int c) const {
    if constexpr (kStaged)
      return widened(staged[r * ld_ + c]);
    else
      return r < count_ && c < keys_ ? widened(*element<T>(x, at_ + r, key_head_ * keys_ + c)) : 0;
  }
  __device__ i64 column_of(int c) const { return head_ * x_.heads.value_width + first_ + c; }
  __device__ void each_of_state(int rows, int columns, const auto& f) const {
    for (int i = static_cast<int>(threadIdx.x); i < rows * kN; i += kDeltaThreads)
      if (i % kN < columns) f(i / kN, i % kN);
  }
  // Copies the chunk's rows of a key head, with zeros beyond its rows and columns.
  __device__ void copy(T* to, const View& from) const {
    const T* const begin = element<T>(from, at_, key_head_ * keys_);
    const bool wide = reinterpret_cast<std::uintptr_t>(begin) % 16 == 0 && from.stride * sizeof(T) % 16 == 0;
    const int packs = padded_ / kPack;
    for (int i = static_cast<int>(threadIdx.x); i < kChunk * packs; i += kDeltaThreads) {
      const int r = i / packs, c = i % packs * kPack;
      const T* const source = begin + r * from.stride + c;
      T* const y = to + r * ld_ + c;
      if (wide && c + kPack <= keys_) {
        constexpr int kOfCopy = 16 / sizeof(T);
        for (int j = 0; j < kPack; j += kOfCopy) copy_16(shared_address(y + j), source + j, r < count_);
      } else {
        for (int j = 0; j < kPack; ++j) y[j] = r < count_ && c + j < keys_ ? source[j] : T{};
      }
    }
  }

  const DeltaOperands& x_;
  const DeltaGpuRoom& room_;
  const i64 head_, key_head_, first_;
  const int keys_, padded_, values_, ld_, warp_, row_, column_;
  float* state_;
  T *q_, *k_;
  i64 at_ = 0;
  int count_ = 0;

 public:
  DeltaFactors& by;
  float *a, *b;  // (64, kLd)
};

// Blocks for the slices of a step.
inline dim3 grid_of(const DeltaOperands& x, int window, int columns) {
  const auto blocks = [](i64 n, i64 each) { return static_cast<unsigned>(ceil_div(n, each)); };
  return {blocks(x.q.rows, window), static_cast<unsigned>(x.heads.values),
          blocks(x.heads.value_width, columns)};
}

// Calls f(slice, columns, bytes of shared memory) with a null pointer to the kind of slice that the heads
// need. Throws UserError if their keys are too wide for any.
template <class T>
void with_slice(const DeltaHeads& heads, const auto& f) {
  using Usual = DeltaSlice<T, 32, true>;
  using Wide = DeltaSlice<T, 8, false>;
  const std::size_t usual = Usual::bytes(heads.key_width), wide = Wide::bytes(heads.key_width);
  if (usual <= kDeltaShared) return f(static_cast<Usual*>(nullptr), 32, usual);
  if (wide > kDeltaShared)
    throw UserError(Exit::hardware, str("the gated delta rule on a GPU: keys of ", heads.key_width,
                                        " columns are too wide; use \"device\": \"cpu\""));
  f(static_cast<Wide*>(nullptr), 8, wide);
}

}  // namespace ft::cuda
