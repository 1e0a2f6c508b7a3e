// What a bias by distance, dropout and a cap add to the tensor-core kernels of attention. Kernels are made
// with `Bare`, whose functions do nothing, so that attention without the three pays nothing for them; with
// `BiasAndDropout`, of which a call may have one or both; with `WithCap`; and with `Sparse`, which has all
// but the cap.
#pragma once
#include <type_traits>

#include "engine/core/random.h"
#include "engine/cuda/kernels/attention_blocks.cuh"

namespace ft::cuda {

// Dropout keeps an element whose uniform number is above p (math::kept), which is to say, of the bits that
// to_uniform takes, those from this number on. Exactly: these numbers and p 2^24 are floats without rounding.
__device__ inline std::uint32_t least_kept(float p) {
  return static_cast<std::uint32_t>(p * 16777216.0f) << 8;
}

// Which of a lane's scores dropout keeps: (m, n, half, j) is that of s[m][n][2 half + j].
struct AllKept {
  __device__ bool operator()(int, int, int, int) const { return true; }
};
template <int kM>
struct KeptOfQueries {
  unsigned of[kM][2];  // [m][half]: bit 4 n + j
  __device__ bool operator()(int m, int n, int half, int j) const {
    return (of[m][half] & 1u << (4 * n + j)) != 0;
  }
};
struct KeptOfKeys {
  unsigned of[2][2];  // [half][j]: bit 4 n
  __device__ bool operator()(int, int n, int half, int j) const { return (of[half][j] & 1u << 4 * n) != 0; }
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
  static constexpr unsigned bytes(const Attention&) { return 0; }
  __device__ Bare(const Attention&, unsigned) {}
  template <class T>
  __device__ void load(const Attention&, i64, int) {}
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

// Scores of a cap: (cap / scale) tanh(s scale / cap).
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
  // The cap's slope at a capped score.
  __device__ float slope(float capped) const { return math::soft_cap_slope(capped * parts_); }

 private:
  float parts_, most_;
};

class BiasAndDropout {
 public:
  using Kept = AllBlocks;
  // Its part of shared memory, from `at` on.
  static unsigned bytes(const Attention& c) {
    return c.bias.data ? static_cast<unsigned>(c.bias.rows * sizeof(float)) : 0;
  }
  __device__ BiasAndDropout(const Attention& c, unsigned at)
      : table_(reinterpret_cast<float*>(&shared_memory<unsigned char>() + at)),
        reach_(static_cast<int>(c.bias.rows / 2)),
        biased_(c.bias.data != nullptr),
        dropout_(c.dropout),
        least_(least_kept(c.dropout)),
        random_{c.random},
        heads_(static_cast<unsigned>(c.all_heads)),
        first_head_(static_cast<unsigned>(c.first_head)) {}

  // The current head. All threads of the block fetch its bias, by column - row, together, once none of them
  // reads the last head's any more; it is available after the next barrier. sign: 1 where rows are queries,
  // -1 where they are keys.
  template <class T>
  __device__ void load(const Attention& c, i64 head, int sign) {
    head_ = static_cast<unsigned>(head);
    if (!biased_) return;
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i <= 2 * reach_; i += static_cast<int>(blockDim.x))
      table_[i] = bias_at<T>(c.bias, head, sign * (i - reach_), c.scale);
  }

  // The first column of a step, that four columns which share a draw are in the same step.
  __device__ int aligned(int from, int first_of_sequence) const {
    return from - (from - first_of_sequence) % 4;
  }

  // Scores begin with their bias, which the product is then added to. All pairs are at the same distance that
  // are as much further in n as in m and half: few words are read.
  template <int kM, int kN>
  __device__ void begin(float (&s)[kM][kN][4], int row, int column) const {
    constexpr int kBack = 2 * kM - 1;  // of m and half, in eights
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

  // Dropout of queries [row, ...) and keys [key, ...), the latter counted from the first of their sequence, a
  // multiple of 4. Two lanes hold the four columns of a draw: the even one draws for rows 0 to 7, its
  // neighbour for rows 8 to 15.
  template <int kM, int kN>
  __device__ KeptOfQueries<kM> kept_of_queries(int row, int key) const {
    static_assert(kN <= 8);
    KeptOfQueries<kM> kept{};
    if (dropout_ == 0) return kept;
    const Lane lane;
    const int odd = lane.t % 2;
    unsigned mine[kM] = {};
#pragma unroll(kAtATime / kM)
    for (int n = 0; n < kN; ++n)
#pragma unroll
      for (int m = 0; m < kM; ++m)
        mine[m] |= draw(row + 16 * m + 8 * odd + lane.g, key + 8 * n + 4 * (lane.t / 2)) << 4 * n;
#pragma unroll
    for (int m = 0; m < kM; ++m) {
      const unsigned other = __shfl_xor_sync(~0u, mine[m], 1);
      kept.of[m][0] = (odd ? other : mine[m]) >> 2 * odd;
      kept.of[m][1] = (odd ? mine[m] : other) >> 2 * odd;
    }
    return kept;
  }

  // Dropout of keys [key, ...) in the rows and queries [query, ...) in the columns. Four lanes hold the four
  // keys of a draw, for two columns and both halves: each draws once.
  template <int kN>
  __device__ KeptOfKeys kept_of_keys(int key, int query) const {
    static_assert(kN <= 8);
    KeptOfKeys kept{};
    if (dropout_ == 0) return kept;
    const Lane lane;
    const int turn = lane.g % 4, half = turn / 2, j = turn % 2;
    unsigned mine = 0;
#pragma unroll(kAtATime)
    for (int n = 0; n < kN; ++n)
      mine |= draw(query + 8 * n + 2 * lane.t + j, key + 8 * half + lane.g / 4 * 4) << 4 * n;
    const int first = static_cast<int>(threadIdx.x % 32) & ~12;
#pragma unroll
    for (int i = 0; i < 4; ++i) kept.of[i / 2][i % 2] = __shfl_sync(~0u, mine, first | i << 2) >> turn;
    return kept;
  }

  template <int kM, int kN, class Kept>
  __device__ void drop(float (&s)[kM][kN][4], const Kept& kept) const {
    if (dropout_ == 0) return;
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int n = 0; n < kN; ++n)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          if (!kept(m, n, j / 2, j % 2)) s[m][n][j] = 0;
  }

  template <int kM, int kN>
  __device__ void cap(float (&)[kM][kN][4]) const {}
  __device__ float slope(float) const { return 1; }

  // What is kept grows by 1 / (1 - dropout): sums of it do, when they are done, and what meets it before that
  // shrinks instead.
  __device__ float grown() const { return 1 / (1 - dropout_); }
  __device__ float shrunk(float v) const { return v * (1 - dropout_); }

 private:
  static constexpr int kAtATime = 4;  // draws of a lane that do not wait for each other

  // The bits of keys [key, key + 4), key being a multiple of 4: whether a query keeps them.
  __device__ unsigned draw(int query, int key) const {
    const std::uint64_t row = static_cast<unsigned>(query) * heads_ + first_head_ + head_;
    const Philox4 four = random_.at(row << 32 | static_cast<unsigned>(key) / 4);
    unsigned bits = 0;
#pragma unroll
    for (unsigned i = 0; i < 4; ++i)
      if (four[i] >= least_) bits |= 1u << i;
    return bits;
  }

  float* table_;
  int reach_;
  bool biased_;
  float dropout_;
  std::uint32_t least_;
  Random random_;
  unsigned heads_, first_head_, head_ = 0;
};

struct Sparse : BiasAndDropout {
  using Kept = KeptBlocks;
  using BiasAndDropout::BiasAndDropout;
};

// f(type, columns, extras): with_type_and_columns, for `Bare` with the narrowest tiles, and which extras.
// Wide heads, of 256 columns, have a cap at most.
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
