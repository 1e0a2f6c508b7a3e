// Bias by distance, dropout and cap in the tensor-core kernels of attention. Kernels are compiled with
// `Bare`, whose functions do nothing, so that attention without the three has no cost for them; with
// `BiasAndDropout`, for calls with one or both; with `WithCap`; and with `Sparse`, which has everything
// except the cap.
#pragma once
#include <type_traits>

#include "engine/core/random.h"
#include "engine/cuda/kernels/attention_blocks.cuh"

namespace ft::cuda {

// Types that state which of a lane's scores dropout keeps.
struct AllKept {};
template <int kM>
struct KeptBits {
  unsigned of[kM];  // bit 4 n + j: s[m][n][j]
  __device__ bool operator()(int m, int n, int j) const { return (of[m] & 1u << (4 * n + j)) != 0; }
};

template <int kM, int kN>
__device__ void fill(float (&s)[kM][kN][4], float v) {
#pragma unroll
  for (int m = 0; m < kM; ++m)
#pragma unroll
    for (int i = 0; i < 4 * kN; ++i) s[m][i / 4][i % 4] = v;
}

struct Bare {
  using Kept = AllBlocks;
  static constexpr bool kBegins = false;  // scores begin with other values than 0
  static constexpr unsigned bytes(const Attention&) { return 0; }
  __device__ Bare(const Attention&, unsigned) {}
  template <class T>
  __device__ void load(const Attention&, i64, int) {}
  __device__ void take(i64) {}
  template <class T>
  __device__ void copy_bias(const Attention&, i64, int, int) const {}
  __device__ int aligned(int from, int) const { return from; }
  template <int kM, int kN>
  __device__ void begin(float (&s)[kM][kN][4], int, int) const {
    fill(s, 0);
  }
  template <int kM, int kN>
  __device__ AllKept kept_of_queries(int, int) const {
    return {};
  }
  template <int kN>
  __device__ AllKept kept_of_keys(int, int) const {
    return {};
  }
  template <int kM, int kN>
  __device__ void drop(float (&)[kM][kN][4], const AllKept&) const {}
  __device__ float grown() const { return 1; }
  __device__ float shrunk(float v) const { return v; }
  template <int kM, int kN>
  __device__ void cap(float (&)[kM][kN][4]) const {}
  __device__ float slope(float) const { return 1; }
};

// Caps scores: (cap / scale) tanh(s scale / cap).
class WithCap : public Bare {
 public:
  __device__ WithCap(const Attention& c, unsigned at)
      : Bare(c, at), parts_(c.scale / c.cap), most_(c.cap / c.scale) {}
  template <int kM, int kN>
  __device__ void cap(float (&s)[kM][kN][4]) const {
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int i = 0; i < 4 * kN; ++i)
        s[m][i / 4][i % 4] = most_ * math::tanh_of(s[m][i / 4][i % 4] * parts_);
  }
  // The cap's derivative at a capped score.
  __device__ float slope(float capped) const { return math::soft_cap_slope(capped * parts_); }

 private:
  float parts_, most_;
};

class BiasAndDropout {
 public:
  using Kept = AllBlocks;
  static constexpr bool kBegins = true;
  // Bytes of its part of shared memory, which begins at `at`.
  static unsigned bytes(const Attention& c) {
    return c.bias.data ? static_cast<unsigned>(c.bias.rows * sizeof(float)) : 0;
  }
  __device__ BiasAndDropout(const Attention& c, unsigned at)
      : table_(reinterpret_cast<float*>(&shared_memory<unsigned char>() + at)),
        reach_(static_cast<int>(c.bias.rows / 2)),
        biased_(c.bias.data != nullptr),
        drops_(c.dropout > 0),
        rule_(c.dropout),
        random_{c.random},
        heads_(static_cast<unsigned>(c.all_heads)),
        first_head_(static_cast<unsigned>(c.first_head)) {}

  // Sets the current head. All threads of the block load its bias together, by column - row, once none of
  // them reads the previous head's bias; it is available after the next barrier. sign: 1 if rows are queries,
  // -1 if they are keys.
  template <class T>
  __device__ void load(const Attention& c, i64 head, int sign) {
    take(head);
    if (!biased_) return;
    __syncthreads();
    copy_bias<T>(c, head, sign, static_cast<int>(blockDim.x));
  }
  // The two parts of load(): take() sets this thread's head; copy_bias() loads a head's bias for the block
  // with its first `threads` threads.
  __device__ void take(i64 head) { head_ = static_cast<unsigned>(head); }
  template <class T>
  __device__ void copy_bias(const Attention& c, i64 head, int sign, int threads) const {
    if (!biased_) return;
    for (int i = static_cast<int>(threadIdx.x); i <= 2 * reach_; i += threads)
      table_[i] = bias_at<T>(c.bias, head, sign * (i - reach_), c.scale);
  }

  // The first column of a step, such that eight columns that share a draw are in the same step.
  __device__ int aligned(int from, int first_of_sequence) const {
    return from - (from - first_of_sequence) % 8;
  }

  // Starts scores with their bias, to which the product is then added. The distance of a pair depends only on
  // n minus m and half, so few words are read.
  template <int kM, int kN>
  __device__ void begin(float (&s)[kM][kN][4], int row, int column) const {
    constexpr int kBack = 2 * kM - 1;  // from m and half, in units of eight
    const int nearest = column - row - 8 * kBack - 7, farthest = column - row + 8 * kN - 1;
    const bool after = nearest >= reach_, before = farthest <= -reach_;
    if (!biased_ || after || before) return fill(s, biased_ ? table_[after ? 2 * reach_ : 0] : 0);
    const Lane lane;
    const int own = column - row + 2 * lane.t - lane.g + reach_;
#pragma unroll
    for (int i = -kBack; i < kN; ++i)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float v = table_[greater(0, lesser(2 * reach_, own + 8 * i + j))];
#pragma unroll
        for (int back = 0; back <= kBack; ++back)
          if (i + back >= 0 && i + back < kN) s[back / 2][i + back][back % 2 * 2 + j] = v;
      }
  }

  // Dropout for queries [row, ...) and keys [key, ...); `key` is counted from the first key of the sequence
  // and a multiple of 8. Four lanes hold the eight columns of a draw. Together they draw for two times eight
  // rows and kN times eight columns: each lane draws for one half and every second n, and passes the bits on.
  template <int kM, int kN>
  __device__ KeptBits<kM> kept_of_queries(int row, int key) const {
    static_assert(kN == 8);
    KeptBits<kM> kept{};
    if (!drops_) return kept;
    const Lane lane;
    const int half = lane.t % 2, odd = lane.t / 2, first = static_cast<int>(threadIdx.x % 32) & ~3;
#pragma unroll
    for (int m = 0; m < kM; ++m) {
      unsigned mine = 0;
#pragma unroll
      for (int i = 0; i < 4; ++i)
        mine |= draw(row + 16 * m + 8 * half + lane.g, key + 8 * (2 * i + odd)) << 8 * i;
#pragma unroll
      for (int from = 0; from < 4; ++from)
        kept.of[m] |= (__shfl_sync(~0u, mine, first | from) >> 2 * lane.t & 0x03030303) << 2 * from;
    }
    return kept;
  }

  // Dropout for keys [key, ...) in the rows and queries [query, ...) in the columns. Eight lanes hold the
  // eight keys of a draw. Together they draw for two columns and both halves of all n: each lane draws for
  // one of these four and every second n.
  template <int kN>
  __device__ KeptBits<1> kept_of_keys(int key, int query) const {
    static_assert(kN % 2 == 0 && kN <= 8);
    KeptBits<1> kept{};
    if (!drops_) return kept;
    const Lane lane;
    const int j = lane.g % 2, half = lane.g / 2 % 2, odd = lane.g / 4;
    unsigned mine = 0;
#pragma unroll
    for (int i = 0; i < kN / 2; ++i)
      mine |= draw(query + 8 * (2 * i + odd) + 2 * lane.t + j, key + 8 * half) << 8 * i;
#pragma unroll
    for (int from = 0; from < 8; ++from)
      kept.of[0] |= (__shfl_sync(~0u, mine, from << 2 | lane.t) >> lane.g & 0x01010101) << from;
    return kept;
  }

  template <int kM, int kN, class Kept>
  __device__ void drop(float (&s)[kM][kN][4], const Kept& kept) const {
    if (!drops_) return;
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int n = 0; n < kN; ++n)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          if (!kept(m, n, j)) s[m][n][j] = 0;
  }

  template <int kM, int kN>
  __device__ void cap(float (&)[kM][kN][4]) const {}
  __device__ float slope(float) const { return 1; }

  // Kept elements are scaled up at the end, in their finished sums. grown: the factor. shrunk: v times the
  // share of kept elements, for numbers that are combined with unscaled sums before that.
  __device__ float grown() const { return rule_.growth(); }
  __device__ float shrunk(float v) const { return v * rule_.share(); }

 private:
  // The bits of keys [key, key + 8) for a query, set for kept keys; `key` is a multiple of 8.
  __device__ unsigned draw(int query, int key) const {
    const std::uint64_t row = static_cast<unsigned>(query) * heads_ + first_head_ + head_;
    const Philox4 eight = random_.eight_at(row << 32 | static_cast<unsigned>(key) / 8);
    const std::uint32_t limit = rule_.limit << 16;
    unsigned bits = 0;
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      if (eight[i] << 16 >= limit) bits |= 1u << 2 * i;
      if (eight[i] >= limit) bits |= 2u << 2 * i;
    }
    return bits;
  }

  float* table_;
  int reach_;
  bool biased_, drops_;
  DropRule rule_;
  Random random_;
  unsigned heads_, first_head_, head_ = 0;
};

struct Sparse : BiasAndDropout {
  using Kept = KeptBlocks;
  using BiasAndDropout::BiasAndDropout;
};

// Calls f(type, columns, extras) like with_type_and_columns, with the extras that the call needs; `Bare` has
// the narrowest tiles. Wide heads, of 256 columns, have at most a cap.
template <class F>
void with_tiles(const Attention& c, F f) {
  if (c.blocks.bits)
    return with_type_and_columns(
        c, [&](auto type, auto columns) { f(type, columns, std::type_identity<Sparse>{}); });
  const auto in_wide = [&](auto extras) {
    constexpr std::integral_constant<int, 256> columns;
    c.q.type == DType::f16 ? f(f16{}, columns, extras) : f(bf16{}, columns, extras);
  };
  if (attention_is_wide(c.width))
    return c.cap > 0 ? in_wide(std::type_identity<WithCap>{}) : in_wide(std::type_identity<Bare>{});
  if (c.cap > 0)
    return with_type_and_columns(
        c, [&](auto type, auto columns) { f(type, columns, std::type_identity<WithCap>{}); });
  if (c.bias.data || c.dropout > 0)
    return with_type_and_columns(
        c, [&](auto type, auto columns) { f(type, columns, std::type_identity<BiasAndDropout>{}); });
  const auto in = [&](auto type) {
    constexpr std::type_identity<Bare> bare;
    if (c.width <= 64)
      f(type, std::integral_constant<int, 64>{}, bare);
    else if (c.width <= 96)
      f(type, std::integral_constant<int, 96>{}, bare);
    else
      f(type, std::integral_constant<int, 128>{}, bare);
  };
  c.q.type == DType::f16 ? in(f16{}) : in(bf16{});
}

}  // namespace ft::cuda
