// The gated delta rule: steps 1 and 2 of delta_rule.h.
#include "engine/cuda/kernels/delta_slices.cuh"
#include "engine/cuda/kernels/kernels.h"

namespace ft::cuda {
namespace {

constexpr int kLd = kChunk + 4;  // no bank conflicts in left operands

// ---- step 1
struct ChunkShared {
  float q[kChunk * kLd], k[kChunk * kLd];  // columns of queries and keys; then A^T, and T
  float sum[kChunk], beta[kChunk], q_rstd[kChunk], k_rstd[kChunk];
};

// Computes the chunk at `row` for one value head.
template <class T>
class Chunk {
 public:
  __device__ Chunk(const DeltaOperands& x, const DeltaGpuRoom& room, i64 row)
      : x_(x),
        room_(room),
        s_(shared_memory<ChunkShared>()),
        row_(row),
        count_(rows_of_chunk(x.first, x.q.rows, row, x.first[row])),
        head_(blockIdx.y),
        tid_(static_cast<int>(threadIdx.x)) {}

  __device__ void run() {
    float kk[DeltaPlace::kTiles][4] = {}, qk[DeltaPlace::kTiles][4] = {};
    __syncthreads();  // all threads have left the chunk before
    if (tid_ < kChunk) s_.beta[tid_] = tid_ < count_ ? *element<float>(x_.beta, row_ + tid_, head_) : 0;
    sum_decays();
    multiply(kk, qk);
    const float unit = 1 / sqrtf(static_cast<float>(x_.heads.key_width));
    place_.each(
        qk, [&](int r, int c, float& s) { s *= unit * s_.q_rstd[r] * s_.k_rstd[c] * decay(r, c, c <= r); });
    store(room_.p, qk);
    place_.each(kk, [&](int r, int c, float& s) {
      s_.k[c * kLd + r] = s_.beta[r] * s * s_.k_rstd[r] * s_.k_rstd[c] * decay(r, c, c < r);
    });
    __syncthreads();
    if (tid_ < kChunk) invert();
    __syncthreads();
    each_element([&](int r, int c) {
      if (r < count_) room_.inverse(row_ + r, head_ * kChunk + c) = s_.q[r * kLd + c];
    });
    if (tid_ < count_) {
      room_.sum(row_ + tid_, head_) = s_.sum[tid_];
      room_.q_rstd(row_ + tid_, head_) = s_.q_rstd[tid_];
      room_.k_rstd(row_ + tid_, head_) = s_.k_rstd[tid_];
    }
  }

 private:
  __device__ float decay(int r, int c, bool there) const { return there ? expf(s_.sum[r] - s_.sum[c]) : 0; }

  __device__ void sum_decays() {
    if (tid_ >= 32) return;
    float g[2];
    for (int i = 0; i < 2; ++i) {
      const int r = tid_ + 32 * i;
      g[i] = running_sum(r < count_ ? *element<float>(x_.g, row_ + r, head_) : 0);
    }
    s_.sum[tid_] = g[0];
    s_.sum[tid_ + 32] = g[1] + __shfl_sync(~0u, g[0], 31);
  }

  // kk = K K^T, qk = Q K^T of rows that are not normalised, and the factors that normalise them. Four threads
  // add up the squares of a row.
  __device__ void multiply(float (&kk)[DeltaPlace::kTiles][4], float (&qk)[DeltaPlace::kTiles][4]) {
    constexpr bool kExact = sizeof(T) == 2;
    const int width = static_cast<int>(x_.heads.key_width);
    const i64 first = head_ / (x_.heads.values / x_.heads.keys) * width;
    float q_squares = 0, k_squares = 0;
    for (int begin = 0; begin < width; begin += kChunk) {
      const int depth = width - begin < kChunk ? (width - begin + 7) / 8 * 8 : kChunk;
      __syncthreads();
      each_element([&](int r, int c) {
        const bool there = r < count_ && begin + c < width;
        s_.q[r * kLd + c] = there ? widened(*element<T>(x_.q, row_ + r, first + begin + c)) : 0;
        s_.k[r * kLd + c] = there ? widened(*element<T>(x_.k, row_ + r, first + begin + c)) : 0;
      });
      __syncthreads();
      const auto right = [&](int p, int j) { return s_.k[j * kLd + p]; };
      if (place_.row < count_ && place_.column < count_) {
        place_.add<kExact, kExact>(
            kk, depth, [&](int i, int p) { return s_.k[i * kLd + p]; }, right);
        place_.add<kExact, kExact>(
            qk, depth, [&](int i, int p) { return s_.q[i * kLd + p]; }, right);
      }
      for (int c = tid_ % 4; c < kChunk; c += 4) {
        const int at = tid_ / 4 * kLd + c;
        q_squares += s_.q[at] * s_.q[at];
        k_squares += s_.k[at] * s_.k[at];
      }
    }
    for (int with = 1; with < 4; with *= 2) {
      q_squares += __shfl_xor_sync(~0u, q_squares, with);
      k_squares += __shfl_xor_sync(~0u, k_squares, with);
    }
    if (tid_ % 4 == 0) {
      s_.q_rstd[tid_ / 4] = 1 / sqrtf(q_squares + kDeltaEps);
      s_.k_rstd[tid_ / 4] = 1 / sqrtf(k_squares + kDeltaEps);
    }
    __syncthreads();
  }

  // Stores the chunk's rows of a matrix (64, 64).
  __device__ void store(const DeltaMatrix& y, float (&sum)[DeltaPlace::kTiles][4]) {
    place_.each(sum, [&](int r, int c, float& s) {
      if (r < count_) y(row_ + r, head_ * kChunk + c) = s;
    });
  }

  // q = (I + A)^-1 by forward substitution. A thread computes a column, 16 rows at a time in registers.
  __device__ void invert() {
    constexpr int kAtOnce = 16;
    for (int begin = 0; begin < kChunk; begin += kAtOnce) {
      float x[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) x[i] = begin + i == tid_ ? 1 : 0;
      if (begin < count_) {
        for (int j = 0; j < begin; ++j) {
          const float known = s_.q[j * kLd + tid_];
#pragma unroll
          for (int i = 0; i < kAtOnce; ++i) x[i] -= s_.k[j * kLd + begin + i] * known;
        }
#pragma unroll
        for (int i = 1; i < kAtOnce; ++i)
#pragma unroll
          for (int j = 0; j < i; ++j) x[i] -= s_.k[(begin + j) * kLd + begin + i] * x[j];
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) s_.q[(begin + i) * kLd + tid_] = x[i];
    }
  }

  const DeltaOperands& x_;
  const DeltaGpuRoom& room_;
  ChunkShared& s_;
  const i64 row_;
  const int count_;
  const i64 head_;
  const int tid_;
  const DeltaPlace place_;
};

template <class T>
__global__ void __launch_bounds__(kDeltaThreads)
    delta_chunks(const __grid_constant__ DeltaOperands x, const __grid_constant__ DeltaGpuRoom room,
                 int window) {
  each_row_of_window(
      x.q.rows, window, [&](i64 row) { return (row - x.first[row]) % kChunk == 0; },
      [&](i64 row) { Chunk<T>(x, room, row).run(); });
}

// ---- step 2
template <class Slice>
class States {
 public:
  __device__ States(const DeltaOperands& x, const DeltaGpuRoom& room) : x_(x), room_(room), slice_(x, room) {}

  __device__ void follow(i64 from) {
    const bool continues = x_.memory.data && x_.past[from] > 0;
    __syncthreads();  // all threads have left the sequence before
    slice_.load_state(continues ? slice_.stored(x_.memory, x_.slot[from]) : nullptr);
    for (i64 row = from;; row += kChunk) {
      const int count = rows_of_chunk(x_.first, x_.q.rows, row, from);
      const bool last = row + count == x_.q.rows || x_.first[row + count] != from;
      __syncthreads();
      if (x_.states.data && row > from) slice_.store_state(slice_.stored(x_.states, row / kChunk - 1));
      if (last && x_.states.data) break;
      compute(row, count, !last || x_.memory.data);
      if (last) break;
    }
    if (!x_.memory.data) return;
    __syncthreads();
    slice_.store_state(slice_.stored(x_.memory, x_.slot[from]));
  }

 private:
  using Sums = typename Slice::Sums;

  __device__ void compute(i64 row, int count, bool advance) {
    const DeltaFactors& by = slice_.by;
    float *const right = slice_.a, *const d = slice_.b;
    slice_.begin(row, count, x_.o.data);
    const auto inverse = slice_.template triangle<false>(room_.inverse);
    Sums v, read = {}, o = {}, sum = {};
    slice_.load(v, x_.v);
    slice_.finish();
    if (x_.o.data)
      slice_.template read<true>(read, o);
    else
      slice_.template read<false>(read, o);
    constexpr int kRow = Slice::kLd;
    slice_.each(v, [&](int r, int c, float& s) { right[r * kRow + c] = by.beta[r] * s; });
    slice_.each(read,
                [&](int r, int c, float& s) { right[r * kRow + c] -= by.beta[r] * by.up[r] * by.k[r] * s; });
    const auto p = slice_.template triangle<false>(room_.p);
    __syncthreads();
    slice_.template add<false>(sum, inverse, right);
    slice_.each(sum, [&](int r, int c, float& s) { d[r * kRow + c] = s; });
    __syncthreads();
    if (x_.o.data) {
      slice_.each(o, [&](int r, int, float& s) { s *= by.up[r] * by.q[r]; });
      slice_.template add<false>(o, p, d);
      slice_.store(x_.o, o);
    }
    if (!advance) return;
    slice_.advance([&](auto& sums, int m, int at) {
      slice_.plus(sums, m, at, false, d, [&](int r) { return by.rest[r] * by.k[r]; });
    });
  }

  const DeltaOperands& x_;
  const DeltaGpuRoom& room_;
  Slice slice_;
};

template <class Slice>
__global__ void __launch_bounds__(kDeltaThreads)
    delta_states(const __grid_constant__ DeltaOperands x, const __grid_constant__ DeltaGpuRoom room,
                 int window) {
  States<Slice> states(x, room);
  each_row_of_window(
      x.q.rows, window, [&](i64 row) { return x.first[row] == row; }, [&](i64 row) { states.follow(row); });
}

}  // namespace

void queue_chunks(const DeltaOperands& x, cudaStream_t stream) {
  const int window = delta_window(x.q.rows);
  const dim3 grid(static_cast<unsigned>(ceil_div(x.q.rows, window)), static_cast<unsigned>(x.heads.values));
  with_float(x.q.type, [&](auto t) {
    launch("delta_chunks", {stream, grid, kDeltaThreads, sizeof(ChunkShared)}, delta_chunks<decltype(t)>, x,
           room_of(x), window);
  });
}

void queue_states(const DeltaOperands& x, cudaStream_t stream) {
  const int window = delta_window(x.q.rows);
  with_float(x.q.type, [&](auto t) {
    with_slice<decltype(t)>(x.heads, [&](auto* slice, int columns, std::size_t shared) {
      using Slice = std::remove_pointer_t<decltype(slice)>;
      launch("delta_states", {stream, grid_of(x, window, columns), kDeltaThreads, shared},
             delta_states<Slice>, x, room_of(x), window);
    });
  });
}

void compute(const op::DeltaRule& op, const Queue& queue) {
  const DeltaOperands x = operands_of(op);
  if (x.q.rows == 0) return;
  require_room(x);
  queue_chunks(x, queue.stream);
  queue_states(x, queue.stream);
}

}  // namespace ft::cuda
