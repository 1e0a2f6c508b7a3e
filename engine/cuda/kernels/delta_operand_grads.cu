// The gradients of the gated delta rule's operands: step 4 of delta_rule.h, all chunks at a time. First,
// for every value head, D and dR once more, and with them the gradients
//   of v: beta dR;  of P: dO D^T;  of A: -dR D^T, below its diagonal,
// of beta and of the sums of g. Then, for every key head, the gradients of q and k through P, A and the
// states:
//   dQ = up dO S^T + dP' K,  dK = rest D dS^T - beta up dR S^T + dP'^T Q + (A' + A'^T) K,
// with dP' and A' the gradients of Q K^T and K K^T. The first kernel also adds up the products of each row
// of Q with its dQ, which the gradient of the normalisation needs, as products of numbers that it has, and
// of K.
#include "engine/cuda/kernels/delta_tiles.cuh"

namespace ft::cuda {
namespace {

constexpr int kLeft = kChunk + 4,
              kRight = kChunk + 8;  // elements of a row of operands, for no bank conflicts
constexpr int kTiles = DeltaPlace::kTiles;
using Sums = float[kTiles][4];

struct GradShared {
  float a[kChunk * kLeft], b[kChunk * kLeft], c[kChunk * kRight], d[kChunk * kRight];
  DeltaFactors by;
  float partial[32];
};

// A chunk, with loads of its operands by element; zeros beyond the chunk and its heads.
template <class T>
class ChunkOperands {
 public:
  static constexpr bool kExact = sizeof(T) == 2;
  __device__ ChunkOperands(const DeltaOperands& x, const DeltaGpuRoom& room, i64 row)
      : x_(x),
        room_(room),
        row_(row),
        from_(x.first[row]),
        count_(rows_of_chunk(x.first, x.q.rows, row, from_)),
        keys_(static_cast<int>(x.heads.key_width)),
        values_(static_cast<int>(x.heads.value_width)),
        begins_(row == from_),
        ends_(row + count_ == x.q.rows || x.first[row + count_] != from_) {}

 protected:
  __device__ float key(const View& in, i64 key_head, int r, int c) const {
    return r < count_ && c < keys_ ? widened(*element<T>(in, row_ + r, key_head * keys_ + c)) : 0;
  }
  __device__ float value(const View& in, i64 head, int r, int c) const {
    return r < count_ && c < values_ ? widened(*element<T>(in, row_ + r, head * values_ + c)) : 0;
  }
  __device__ float value(const DeltaMatrix& in, i64 head, int r, int c) const {
    return r < count_ && c < values_ ? in(row_ + r, head * values_ + c) : 0;
  }
  __device__ float square(const DeltaMatrix& in, i64 head, int r, int c) const {
    return r < count_ ? in(row_ + r, head * kChunk + c) : 0;
  }
  // Element (r, c) of the state before the chunk, and of the gradient of the state after it.
  __device__ float state(i64 head, int r, int c) const {
    if (begins_ || r >= keys_ || c >= values_) return 0;
    return *element<float>(x_.states, row_ / kChunk - 1, (head * keys_ + r) * values_ + c);
  }
  __device__ float dstate(i64 head, int r, int c) const {
    if (ends_ || r >= keys_ || c >= values_) return 0;
    return room_.dstates(row_ / kChunk, (head * keys_ + r) * values_ + c);
  }
  // Rows or columns that products over `n` numbers from `begin` on need, at most 64: whole eights.
  static __device__ int depth_of(int n, int begin) {
    return n - begin < kChunk ? (n - begin + 7) / 8 * 8 : kChunk;
  }

  const DeltaOperands& x_;
  const DeltaGpuRoom& room_;
  const i64 row_, from_;
  const int count_, keys_, values_;
  const bool begins_, ends_;
  const DeltaPlace place_;
};

// ---- gradients within a value head
template <class T>
class HeadGradients : ChunkOperands<T> {
  using Base = ChunkOperands<T>;
  using Base::count_, Base::keys_, Base::place_, Base::room_, Base::row_, Base::values_, Base::x_;

 public:
  static constexpr int kBlocks = 1;  // of a multiprocessor: seven sums need the registers

  __device__ HeadGradients(const DeltaOperands& x, const DeltaGpuRoom& room, i64 row)
      : Base(x, room, row),
        s_(shared_memory<GradShared>()),
        head_(blockIdx.y),
        key_head_(head_ / (x.heads.values / x.heads.keys)),
        tid_(static_cast<int>(threadIdx.x)) {}

  __device__ void run() {
    Sums dp = {}, da = {};
    __syncthreads();  // all threads have left the chunk before
    s_.by.load(x_, room_, row_, count_, head_);
    for (int first = 0; first < values_; first += kChunk) add_columns(first, dp, da);
    within(dp, da);
    store_rows();
  }

 private:
  enum { kOfBeta, kOfSum, kPull, kOfQ, kOfK, kNumbers };

  // Products with the states: read = K S, asked = Q S, back = K dS of columns from `first` on, of rows
  // that are not normalised.
  __device__ void read_states(int first, Sums& read, Sums& asked, Sums& back) {
    for (int begin = 0; begin < keys_; begin += kChunk) {
      __syncthreads();
      load_keys(begin);
      each_element([&](int r, int c) {
        s_.c[r * kRight + c] = Base::state(head_, begin + r, first + c);
        s_.d[r * kRight + c] = Base::dstate(head_, begin + r, first + c);
      });
      __syncthreads();
      const auto k = [&](int i, int p) { return s_.a[i * kLeft + p]; };
      const auto q = [&](int i, int p) { return s_.b[i * kLeft + p]; };
      const auto state = [&](int p, int j) { return s_.c[p * kRight + j]; };
      const auto dstate = [&](int p, int j) { return s_.d[p * kRight + j]; };
      const int depth = Base::depth_of(keys_, begin);
      place_.template add<Base::kExact>(read, depth, k, state);
      place_.template add<Base::kExact>(asked, depth, q, state);
      place_.template add<Base::kExact>(back, depth, k, dstate);
      each_element([&](int r, int c) { states_ += s_.c[r * kRight + c] * s_.d[r * kRight + c]; });
    }
  }

  // a = K, b = Q, 64 columns from `begin` on.
  __device__ void load_keys(int begin) {
    each_element([&](int r, int c) {
      s_.a[r * kLeft + c] = Base::key(x_.k, key_head_, r, begin + c);
      s_.b[r * kLeft + c] = Base::key(x_.q, key_head_, r, begin + c);
    });
  }

  // Adds 64 columns of values, from `first` on, to the gradients of P and (without its sign) of A.
  __device__ void add_columns(int first, Sums& dp, Sums& da) {
    const DeltaFactors& by = s_.by;
    Sums read = {}, asked = {}, back = {}, d = {}, dr = {};
    read_states(first, read, asked, back);
    __syncthreads();
    each_element([&](int r, int c) {
      s_.a[r * kLeft + c] = Base::square(room_.inverse, head_, r, c);
      s_.b[c * kLeft + r] = Base::square(room_.p, head_, r, c);
      s_.d[r * kRight + c] = Base::value(x_.o_grad, head_, r, first + c);
    });
    place_.each(asked, [&](int r, int, float& s) { s *= by.up[r] * by.q[r]; });
    place_.each(back, [&](int r, int, float& s) { s *= by.rest[r] * by.k[r]; });
    place_.each(read, [&](int r, int c, float& s) {
      s *= by.up[r] * by.k[r];
      s_.c[r * kRight + c] = by.beta[r] * (Base::value(x_.v, head_, r, first + c) - s);
    });
    __syncthreads();
    const int rows = Base::depth_of(count_, 0);
    place_.add(
        d, rows, [&](int i, int p) { return s_.a[i * kLeft + p]; },
        [&](int p, int j) { return s_.c[p * kRight + j]; });
    Sums sum;
    for (int n = 0; n < kTiles; ++n)
      for (int i = 0; i < 4; ++i) sum[n][i] = back[n][i];
    place_.template add<false, Base::kExact>(
        sum, rows, [&](int i, int p) { return s_.b[i * kLeft + p]; },
        [&](int p, int j) { return s_.d[p * kRight + j]; });
    __syncthreads();
    place_.each(d, [&](int r, int c, float& s) { s_.c[r * kRight + c] = s; });
    place_.each(sum, [&](int r, int c, float& s) { s_.b[r * kLeft + c] = s; });
    __syncthreads();
    place_.add(
        dr, rows, [&](int i, int p) { return s_.a[p * kLeft + i]; },
        [&](int p, int j) { return s_.b[p * kLeft + j]; });
    __syncthreads();
    place_.each(dr, [&](int r, int c, float& s) { s_.b[r * kLeft + c] = s; });
    store_columns(first, d, dr);
    add_up(first, read, asked, back, d, dr);
    __syncthreads();
    const auto of_d = [&](int p, int j) { return s_.c[j * kRight + p]; };
    const int columns = Base::depth_of(values_, first);
    place_.template add<Base::kExact>(
        dp, columns, [&](int i, int p) { return s_.d[i * kRight + p]; }, of_d);
    place_.add(
        da, columns, [&](int i, int p) { return s_.b[i * kLeft + p]; }, of_d);
  }

  __device__ void store_columns(int first, Sums& d, Sums& dr) {
    const auto there = [&](int r, int c) { return r < count_ && first + c < values_; };
    place_.each(d, [&](int r, int c, float& s) {
      if (there(r, c)) room_.d(row_ + r, head_ * values_ + first + c) = s;
    });
    place_.each(dr, [&](int r, int c, float& s) {
      if (!there(r, c)) return;
      room_.dr(row_ + r, head_ * values_ + first + c) = s;
      round_to(*element<T>(x_.dv, row_ + r, head_ * values_ + first + c), s_.by.beta[r] * s);
    });
  }

  // Adds products of columns to the numbers of the lane's two rows. read, asked and back have their
  // factors.
  __device__ void add_up(int first, Sums& read, Sums& asked, Sums& back, Sums& d, Sums& dr) {
    const Lane lane;
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int r = place_.row + lane.g + i / 2 * 8, c = place_.column + 8 * n + 2 * lane.t + i % 2;
        const float of_q = s_.d[r * kRight + c] * asked[n][i], pull = d[n][i] * back[n][i];
        const float of_read = s_.by.beta[r] * dr[n][i] * read[n][i];
        numbers_[kOfBeta][i / 2] += dr[n][i] * (Base::value(x_.v, head_, r, first + c) - read[n][i]);
        numbers_[kOfSum][i / 2] += of_q - of_read;
        numbers_[kPull][i / 2] += pull;
        numbers_[kOfQ][i / 2] += of_q;
        numbers_[kOfK][i / 2] += pull - of_read;
      }
  }

  // Computes the gradients of Q K^T and K K^T from the gradients of P and A, and adds to the numbers of rows.
  // Leaves the gradient of sum_i - sum_j in `a`.
  __device__ void within(Sums& dp, Sums& da) {
    const DeltaFactors& by = s_.by;
    Sums kk = {}, qk = {};
    for (int begin = 0; begin < keys_; begin += kChunk) {
      __syncthreads();
      load_keys(begin);
      __syncthreads();
      const auto k = [&](int i, int p) { return s_.a[i * kLeft + p]; };
      const auto q = [&](int i, int p) { return s_.b[i * kLeft + p]; };
      const auto right = [&](int p, int j) { return s_.a[j * kLeft + p]; };
      place_.template add<Base::kExact, Base::kExact>(kk, Base::depth_of(keys_, begin), k, right);
      place_.template add<Base::kExact, Base::kExact>(qk, Base::depth_of(keys_, begin), q, right);
    }
    __syncthreads();
    const Lane lane;
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int r = place_.row + lane.g + i / 2 * 8, c = place_.column + 8 * n + 2 * lane.t + i % 2;
        const float decay = c <= r ? expf(by.sum[r] - by.sum[c]) : 0;
        const float to_p = dp[n][i] * decay, to_a = c < r ? -da[n][i] * decay : 0;
        const float product = kk[n][i] * by.k[r] * by.k[c];
        const float through_p = to_p * qk[n][i] * by.q[r] * by.k[c], through_a = to_a * by.beta[r] * product;
        numbers_[kOfBeta][i / 2] += to_a * product;
        numbers_[kOfQ][i / 2] += through_p;
        numbers_[kOfK][i / 2] += through_a;
        s_.a[r * kLeft + c] = through_p + through_a;
        if (r >= count_) continue;
        room_.p(row_ + r, head_ * kChunk + c) = to_p;
        room_.inverse(row_ + r, head_ * kChunk + c) = by.beta[r] * to_a;
      }
  }

  // Adds up the numbers of rows over lanes, and stores the gradients of beta and g.
  __device__ void store_rows() {
    const Lane lane;
    float* const halves = s_.b;  // (kNumbers, 2, 64)
    for (int kind = 0; kind < kNumbers; ++kind)
      for (int i = 0; i < 2; ++i) {
        float sum = numbers_[kind][i];
        for (int with = 1; with < 4; with *= 2) sum += __shfl_xor_sync(~0u, sum, with);
        if (lane.t == 0) halves[(2 * kind + place_.column / 32) * kChunk + place_.row + lane.g + 8 * i] = sum;
      }
    const float states = block_sum(states_, s_.partial);  // also a barrier
    if (tid_ < kChunk) {
      float of[kNumbers] = {}, turned = 0;
      for (int kind = 0; kind < kNumbers; ++kind)
        of[kind] = halves[2 * kind * kChunk + tid_] + halves[(2 * kind + 1) * kChunk + tid_];
      for (int r = 0; r < kChunk; ++r) turned += s_.a[r * kLeft + tid_];
      s_.c[tid_] = of[kOfSum];
      s_.d[tid_] = of[kPull];
      if (tid_ < count_) {
        *element<float>(x_.dbeta, row_ + tid_, head_) = of[kOfBeta];
        room_.q_dot(row_ + tid_, head_) = of[kOfQ];
        room_.k_dot(row_ + tid_, head_) = of[kOfK] + turned;
      }
    }
    __syncthreads();
    store_dg(s_.by.up[count_ - 1] * states);
  }

  // Stores the gradient of g. The decay from row j to row i is the sum of g in the rows after j up to i. So
  // row r gets the elements of `a` in rows from r on and columns before r, numbers kOfSum of the rows from r
  // on, numbers kPull of the rows before r, and `all`. No sum is a difference of larger ones.
  __device__ void store_dg(float all) {
    if (tid_ < kChunk) {  // sums of the columns before each
      float sum = 0;
      for (int c = 0; c < kChunk; ++c) {
        const float own = s_.a[tid_ * kLeft + c];
        s_.a[tid_ * kLeft + c] = sum;
        sum += own;
      }
    }
    __syncthreads();
    if (tid_ >= 32) return;
    const float second = running_sum(s_.c[63 - tid_]),
                first = running_sum(s_.c[31 - tid_]) + __shfl_sync(~0u, second, 31);
    const float before = running_sum(s_.d[tid_]),
                later = running_sum(s_.d[32 + tid_]) + __shfl_sync(~0u, before, 31);
    const auto store = [&](int r, float from, float up_to) {
      float across = 0;
      for (int i = r; i < kChunk; ++i) across += s_.a[i * kLeft + r];
      if (r < count_) *element<float>(x_.dg, row_ + r, head_) = across + from + (up_to - s_.d[r]) + all;
    };
    store(tid_, __shfl_sync(~0u, first, 31 - tid_), before);
    store(32 + tid_, __shfl_sync(~0u, second, 31 - tid_), later);
  }

  GradShared& s_;
  const i64 head_, key_head_;
  const int tid_;
  float numbers_[kNumbers][2] = {}, states_ = 0;
};

// ---- gradients of queries and keys
template <class T>
class KeyGradients : ChunkOperands<T> {
  using Base = ChunkOperands<T>;
  using Base::count_, Base::keys_, Base::place_, Base::room_, Base::row_, Base::values_, Base::x_;

 public:
  static constexpr int kBlocks = 2;

  __device__ KeyGradients(const DeltaOperands& x, const DeltaGpuRoom& room, i64 row)
      : Base(x, room, row),
        s_(shared_memory<GradShared>()),
        key_head_(blockIdx.y),
        group_(x.heads.values / x.heads.keys),
        begin_(static_cast<int>(blockIdx.z) * kChunk) {}

  __device__ void run() {
    Sums dq = {}, dk = {};
    for (i64 head = key_head_ * group_; head < (key_head_ + 1) * group_; ++head) {
      __syncthreads();
      s_.by.load(x_, room_, row_, count_, head);
      __syncthreads();
      for (int first = 0; first < values_; first += kChunk) through_states(head, first, dq, dk);
      within(head, dq, dk);
    }
    store(x_.dq, x_.q, dq, room_.q_rstd, room_.q_dot, 1 / sqrtf(static_cast<float>(keys_)));
    store(x_.dk, x_.k, dk, room_.k_rstd, room_.k_dot, 1);
  }

 private:
  // Columns of values from `first` on.
  __device__ void through_states(i64 head, int first, Sums& dq, Sums& dk) {
    const DeltaFactors& by = s_.by;
    const int depth = Base::depth_of(values_, first);
    const auto a = [&](int i, int p) { return s_.a[i * kLeft + p]; };
    const auto b = [&](int i, int p) { return s_.b[i * kLeft + p]; };
    const auto turned = [&](int p, int j) { return s_.c[j * kRight + p]; };
    if (!Base::begins_) {
      each_element([&](int r, int c) {
        s_.a[r * kLeft + c] = by.up[r] * Base::value(x_.o_grad, head, r, first + c);
        s_.b[r * kLeft + c] = -by.beta[r] * by.up[r] * Base::value(room_.dr, head, r, first + c);
        s_.c[r * kRight + c] = Base::state(head, begin_ + r, first + c);
      });
      __syncthreads();
      place_.add(dq, depth, a, turned);
      place_.add(dk, depth, b, turned);
      __syncthreads();
    }
    if (!Base::ends_) {
      each_element([&](int r, int c) {
        s_.a[r * kLeft + c] = by.rest[r] * Base::value(room_.d, head, r, first + c);
        s_.c[r * kRight + c] = Base::dstate(head, begin_ + r, first + c);
      });
      __syncthreads();
      place_.add(dk, depth, a, turned);
      __syncthreads();
    }
  }

  __device__ void within(i64 head, Sums& dq, Sums& dk) {
    const DeltaFactors& by = s_.by;
    each_element([&](int r, int c) {
      s_.a[r * kLeft + c] = Base::square(room_.p, head, r, c);
      s_.b[r * kLeft + c] = Base::square(room_.inverse, head, r, c) + Base::square(room_.inverse, head, c, r);
      s_.c[r * kRight + c] = by.k[r] * Base::key(x_.k, key_head_, r, begin_ + c);
      s_.d[r * kRight + c] = by.q[r] * Base::key(x_.q, key_head_, r, begin_ + c);
    });
    __syncthreads();
    const int rows = Base::depth_of(count_, 0);
    const auto k = [&](int p, int j) { return s_.c[p * kRight + j]; };
    place_.add(
        dq, rows, [&](int i, int p) { return s_.a[i * kLeft + p]; }, k);
    place_.add(
        dk, rows, [&](int i, int p) { return s_.b[i * kLeft + p]; }, k);
    place_.add(
        dk, rows, [&](int i, int p) { return s_.a[p * kLeft + i]; },
        [&](int p, int j) { return s_.d[p * kRight + j]; });
  }

  // Stores the gradient of rows before their normalisation, which multiplies them by rstd and `unit`.
  __device__ void store(const View& to, const View& from, Sums& sum, const DeltaMatrix& rstd,
                        const DeltaMatrix& dot, float unit) {
    place_.each(sum, [&](int r, int c, float& s) {
      if (r >= count_ || begin_ + c >= keys_) return;
      const i64 head = key_head_ * group_;
      const float by = rstd(row_ + r, head);
      float dots = 0;
      for (i64 j = 0; j < group_; ++j) dots += dot(row_ + r, head + j);
      const float own = by * Base::key(from, key_head_, r, begin_ + c) * dots;
      round_to(*element<T>(to, row_ + r, key_head_ * keys_ + begin_ + c), by * (unit * s - own));
    });
  }

  GradShared& s_;
  const i64 key_head_, group_;
  const int begin_;
};

template <class Gradients>
__global__ void __launch_bounds__(kDeltaThreads, Gradients::kBlocks)
    delta_operand_gradients(const __grid_constant__ DeltaOperands x,
                            const __grid_constant__ DeltaGpuRoom room, int window) {
  each_row_of_window(
      x.q.rows, window, [&](i64 row) { return (row - x.first[row]) % kChunk == 0; },
      [&](i64 row) { Gradients(x, room, row).run(); });
}

}  // namespace

void queue_operand_gradients(const DeltaOperands& x, cudaStream_t stream) {
  const int window = delta_window(x.q.rows);
  const auto count = [](i64 n) { return static_cast<unsigned>(n); };
  const unsigned windows = count(ceil_div(x.q.rows, window));
  const dim3 by_head(windows, count(x.heads.values)),
      by_key(windows, count(x.heads.keys), count(ceil_div(x.heads.key_width, kChunk)));
  with_float(x.q.type, [&](auto t) {
    using T = decltype(t);
    launch("delta_head_gradients", {stream, by_head, kDeltaThreads, sizeof(GradShared)},
           delta_operand_gradients<HeadGradients<T>>, x, room_of(x), window);
    launch("delta_key_gradients", {stream, by_key, kDeltaThreads, sizeof(GradShared)},
           delta_operand_gradients<KeyGradients<T>>, x, room_of(x), window);
  });
}

}  // namespace ft::cuda
