// Attention and its gradient on every target, against a double-precision reference.
#include "engine/cpu/attention.h"
#include "engine/core/error.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "tests/engine/cpu/all_kernels.h"
#include "tests/reference/attention.h"

namespace ft::cpu {
namespace {

using Values = std::vector<double>;
using Case = reference::Attention;

constexpr std::int64_t kGuard = 64;  // elements before the first and after the last row

// A tensor with gaps between its rows and around it, whose content must neither be used nor change.
class Padded {
 public:
  Padded(DType type, std::int64_t rows, std::int64_t cols, std::int64_t gap)
      : memory_(static_cast<std::size_t>((2 * kGuard + rows * (cols + gap)) * size_of(type)),
                std::byte{0xff}),
        tensor_(memory_.data() + kGuard * size_of(type), type, {rows, cols}, cols + gap) {}  // 0xffff: NaN
  Padded(DType type, std::int64_t rows, std::int64_t cols, std::int64_t gap, const Values& values)
      : Padded(type, rows, cols, gap) {
    for_each([&](std::byte* p, std::size_t i) {
      const auto v = static_cast<float>(values[i]);
      if (type == DType::f32)
        std::memcpy(p, &v, 4);
      else if (type == DType::bf16)
        from_float(*reinterpret_cast<bf16*>(p), v);
      else
        from_float(*reinterpret_cast<f16*>(p), v);
    });
  }
  const Tensor& tensor() const { return tensor_; }
  operator Tensor() const { return tensor_; }

  Values values() const {
    Values all(static_cast<std::size_t>(tensor_.numel()));
    for_each([&](std::byte* p, std::size_t i) {
      all[i] = tensor_.dtype == DType::f32    ? *reinterpret_cast<float*>(p)
               : tensor_.dtype == DType::bf16 ? to_float(*reinterpret_cast<bf16*>(p))
                                              : to_float(*reinterpret_cast<f16*>(p));
    });
    return all;
  }
  // Returns true if nothing outside the rows has changed.
  bool intact() const {
    std::vector<std::byte> copy = memory_;
    const auto offset = tensor_.data - memory_.data();
    for_each([&](std::byte* p, std::size_t) {
      std::fill_n(copy.begin() + offset + (p - tensor_.data), size_of(tensor_.dtype), std::byte{0xff});
    });
    return std::all_of(copy.begin(), copy.end(), [](std::byte b) { return b == std::byte{0xff}; });
  }
  bool operator==(const Padded& o) const { return memory_ == o.memory_; }

 private:
  template <class F>
  void for_each(F f) const {
    for (std::int64_t r = 0, i = 0; r < tensor_.rows(); ++r)
      for (std::int64_t c = 0; c < tensor_.cols(); ++c)
        f(tensor_.data + (r * tensor_.stride + c) * size_of(tensor_.dtype), static_cast<std::size_t>(i++));
  }

  std::vector<std::byte> memory_;
  Tensor tensor_;
};

// Returns random numbers that the type can represent.
Values random_values(std::int64_t n, DType type, std::uint32_t seed, double size = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal;
  Values v(static_cast<std::size_t>(n));
  for (double& x : v) {
    x = static_cast<float>(normal(generator) * size);
    bf16 b;
    from_float(b, static_cast<float>(x));
    if (type == DType::bf16) x = to_float(b);
    f16 h;
    from_float(h, static_cast<float>(x));
    if (type == DType::f16) x = to_float(h);
  }
  return v;
}

struct Inputs {
  Values q, k, v, dy, bias;
  Inputs(const Case& c, DType type, double size = 1)
      : q(random_values(c.query_size(), type, 1, size)),
        k(random_values(c.key_size(), type, 2, size)),
        v(random_values(c.key_size(), type, 3)),
        dy(random_values(c.query_size(), type, 4)) {
    if (c.reach >= 0) bias = random_values(c.bias_rows() * c.heads.query, type, 5);
  }
};

struct Outputs {
  Padded y, by_range, lse, dq, dk, dv, dbias;
  Outputs(const Case& c, DType type)
      : y(type, c.rows(), c.heads.query * c.heads.width, 3),
        by_range(type, c.rows(), c.heads.query * c.heads.width, 4),
        lse(DType::f32, c.heads.query, c.rows(), 0),
        dq(type, c.rows(), c.heads.query * c.heads.width, 5),
        dk(type, c.key_rows(), c.heads.key_value * c.heads.width, 6),
        dv(type, c.key_rows(), c.heads.key_value * c.heads.width, 1),
        dbias(DType::f32, c.bias_rows(), c.heads.query, 2,
              Values(static_cast<std::size_t>(c.bias_rows() * c.heads.query), 0.25)) {}
  bool operator==(const Outputs&) const = default;
};

// The keys of each row, in the form that attention_ranges takes.
struct Ranges {
  std::vector<std::int32_t> first, count;
  std::int64_t window;
  explicit Ranges(const Case& c) : window(c.causal ? c.window : 0) {
    c.for_each_query([&](auto i, auto from, auto to, auto head, auto) {
      if (head > 0) return;
      const auto begin = static_cast<std::int32_t>(c.origin(i).key);
      // attention_ranges applies the window
      first.push_back(window > 0 ? begin : static_cast<std::int32_t>(from));
      count.push_back(static_cast<std::int32_t>(to) - first.back());
    });
  }
  KeyRanges tensors() {
    const auto of = [](std::vector<std::int32_t>& v) {
      return Tensor(reinterpret_cast<std::byte*>(v.data()), DType::i32,
                    {static_cast<std::int64_t>(v.size())});
    };
    return {of(first), of(count), window};
  }
};

// The bits of a block layout as a tensor, and the rows of bits that ranges use.
struct Bits {
  std::vector<std::uint32_t> words, of_rows;
  explicit Bits(const Case& c) {
    if (!c.blocks) return;
    const BlockLayout& b = *c.blocks;
    std::int64_t longest = 0;
    for (std::size_t s = 1; s < c.starts.size(); ++s)
      longest = std::max<std::int64_t>(longest, c.starts[s] - c.starts[s - 1]);
    const auto add = [](std::vector<std::uint32_t>& to, std::span<const std::uint32_t> row) {
      to.insert(to.end(), row.begin(), row.end());
    };
    for (std::int64_t h = 0; h < b.heads(); ++h)
      for (std::int64_t r = 0; r * b.block() < longest; ++r) add(words, b.row(h, r));
    for (std::int64_t row = 0; row < c.rows(); ++row)
      for (std::int64_t h = 0; h < b.heads(); ++h)
        add(of_rows, b.row(h, (row - c.origin(row).query) / b.block()));
  }
  static Tensor tensor(std::vector<std::uint32_t>& v, const Case& c) {
    const std::int64_t cols = c.blocks->words();
    return {reinterpret_cast<std::byte*>(v.data()),
            DType::i32,
            {static_cast<std::int64_t>(v.size()) / cols, cols}};
  }
};

Outputs run(const Kernels& kernels, const Case& c, DType type, const Inputs& in, int threads) {
  const std::int64_t query = c.heads.query * c.heads.width, key = c.heads.key_value * c.heads.width;
  const Padded q(type, c.rows(), query, 1, in.q), k(type, c.key_rows(), key, 2, in.k);
  const Padded v(type, c.key_rows(), key, 7, in.v), dy(type, c.rows(), query, 9, in.dy);
  const Padded bias(type, c.bias_rows(), c.heads.query, 3, in.bias);
  Outputs out(c, type);
  Team team(threads);
  Attention attention(kernels, team);
  Mask mask{c.starts, c.causal, c.window, c.key_starts};
  Bits bits(c);
  if (c.blocks) mask.blocks = {c.blocks, Bits::tensor(bits.words, c)};
  const bool biased = c.reach >= 0;
  Scores scores{static_cast<float>(c.scale), biased ? bias.tensor() : Tensor{}, static_cast<float>(c.dropout),
                c.random, static_cast<float>(c.cap)};
  attention.forward({out.y, out.lse, q, k, v, c.heads, mask, scores});
  attention.backward({out.dq, out.dk, out.dv, biased ? out.dbias.tensor() : Tensor{}, dy, out.y, out.lse, q,
                      k, v, c.heads, mask, scores});
  Ranges ranges(c);
  scores.dropout = 0;
  KeyRanges seen = ranges.tensors();
  if (c.blocks) seen.blocks = Bits::tensor(bits.of_rows, c), seen.block = c.blocks->block();
  attention.ranges(
      {.y = out.by_range, .q = q, .k = k, .v = v, .heads = c.heads, .ranges = seen, .scores = scores});
  return out;
}

// Returns sum (got - want)^2 / sum want^2, with a lower limit on the denominator: the gradient of a query
// that sees one key is 0, computed as a difference of numbers near 1. Infinite if a number is not finite.
double nmse(const Values& got, const Values& want, double floor = 0) {
  double error = 0, size = std::max(floor, 0.1 * static_cast<double>(want.size()));
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (!std::isfinite(got[i])) return HUGE_VAL;
    error += (got[i] - want[i]) * (got[i] - want[i]);
    size += want[i] * want[i];
  }
  return error / size;
}

std::string describe(const Case& c, DType type, const std::string& target) {
  std::string lengths;
  for (std::size_t i = 1; i < c.starts.size(); ++i) lengths += str(" ", c.starts[i] - c.starts[i - 1]);
  return str(target, " ", name_of(type), " heads ", c.heads.query, "/", c.heads.key_value, " of ",
             c.heads.width, ", lengths", lengths, c.causal ? ", causal" : "", ", window ", c.window,
             ", reach ", c.reach, ", dropout ", c.dropout, ", cap ", c.cap,
             c.blocks ? str(", blocks of ", c.blocks->block()) : "");
}

void expect_right(const Case& c, DType type, double bound) {
  const Inputs in(c, type);
  Values y, lse, dq, dk, dv, dbias;
  c.forward(y, lse, in.q, in.k, in.v, in.bias);
  c.backward(dq, dk, dv, dbias, in.dy, in.q, in.k, in.v, in.bias);
  for (double& d : dbias) d += 0.25;  // the value before
  double pairs = 0;                   // each adds to a sum that may cancel out
  c.for_each_query([&](auto, auto from, auto to, auto, auto) { pairs += static_cast<double>(to - from); });
  // attention_ranges has no dropout, and its bias has the distances of causal queries
  const bool ranged = c.dropout == 0 && (c.reach < 0 || c.causal);
  for (const auto& [name, kernels, bf16_dot] : all_kernels()) {
    SCOPED_TRACE(describe(c, type, name));
    const Outputs out = run(kernels, c, type, in, 2);
    EXPECT_LT(nmse(out.y.values(), y), bound);
    if (ranged) {
      EXPECT_LT(nmse(out.by_range.values(), y), bound);
    }
    EXPECT_LT(nmse(out.lse.values(), lse), type == DType::f32 ? 1e-12 : 1e-9);
    EXPECT_LT(nmse(out.dq.values(), dq), bound);
    EXPECT_LT(nmse(out.dk.values(), dk), bound);
    EXPECT_LT(nmse(out.dv.values(), dv), bound);
    if (c.reach >= 0) {
      EXPECT_LT(nmse(out.dbias.values(), dbias, 0.1 * pairs), bound);
    }
    for (const Padded* t : {&out.y, &out.by_range, &out.lse, &out.dq, &out.dk, &out.dv, &out.dbias})
      EXPECT_TRUE(t->intact());
  }
}
void expect_right(const Case& c) {
  expect_right(c, DType::f32, 2e-12);
  expect_right(c, DType::bf16, 5e-5);
  expect_right(c, DType::f16, 1e-6);
}

Case make_case(Heads heads, std::vector<std::int32_t> lengths, bool causal = true, std::int64_t window = 0) {
  Case c{heads, {0}, causal, window, 1.0f / std::sqrt(static_cast<float>(heads.width))};
  for (const auto n : lengths) c.starts.push_back(c.starts.back() + n);
  return c;
}

Case with_bias(Case c, std::int64_t reach) {
  c.reach = reach;
  return c;
}
Case with_cap(Case c, double cap) {
  c.cap = cap;
  return c;
}
Case with_dropout(Case c, double p) {
  c.dropout = p;
  c.random = Random{7}.with("attention");
  return c;
}
// Returns `c` with other keys, in sequences of these lengths.
Case with_keys(Case c, const std::vector<std::int32_t>& lengths) {
  c.causal = false;
  c.key_starts = {0};
  for (const auto n : lengths) c.key_starts.push_back(c.key_starts.back() + n);
  return c;
}

// A layout in which each block sees itself and some others.
BlockLayout some_blocks(std::int64_t heads, std::int64_t blocks, std::int64_t block, double share) {
  BlockLayout layout(heads, blocks, block);
  std::mt19937 generator(3);
  std::uniform_real_distribution<double> uniform;
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t r = 0; r < blocks; ++r)
      for (std::int64_t c = 0; c < blocks; ++c)
        if (r == c || uniform(generator) < share) layout.keep(h, r, c);
  return layout;
}
Case with_blocks(Case c, const BlockLayout& layout) {
  c.blocks = &layout;
  return c;
}

void expect_complex_step(const Case& c) {
  SCOPED_TRACE(describe(c, DType::f32, "reference"));
  const Inputs in(c, DType::f32);
  Values dq, dk, dv, dbias;
  c.backward(dq, dk, dv, dbias, in.dy, in.q, in.k, in.v, in.bias);
  using Complex = std::complex<double>;
  using Complexes = std::vector<Complex>;
  Complexes inputs[] = {{in.q.begin(), in.q.end()},
                        {in.k.begin(), in.k.end()},
                        {in.v.begin(), in.v.end()},
                        {in.bias.begin(), in.bias.end()}};
  const Values* gradients[] = {&dq, &dk, &dv, &dbias};
  for (std::size_t n = 0; n < 4; ++n)
    for (std::size_t i = 0; i < inputs[n].size(); ++i) {
      inputs[n][i] += Complex{0, 1e-30};
      Complexes y, lse;
      c.forward(y, lse, inputs[0], inputs[1], inputs[2], inputs[3]);
      double slope = 0;
      for (std::size_t e = 0; e < y.size(); ++e) slope += in.dy[e] * y[e].imag() / 1e-30;
      inputs[n][i] = inputs[n][i].real();
      ASSERT_NEAR(slope, (*gradients[n])[i], 1e-13);
    }
}

TEST(AttentionReference, GradientIsItsOwnComplexStep) {
  expect_complex_step(make_case({4, 2, 3}, {5, 1, 7}, true, 4));
  expect_complex_step(with_bias(make_case({4, 2, 3}, {5, 1, 7}), 3));
  expect_complex_step(with_dropout(with_bias(make_case({2, 2, 3}, {5, 9}, false), 20), 0.3));
  expect_complex_step(with_dropout(with_keys(make_case({4, 2, 3}, {5, 1}), {3, 6}), 0.2));
  expect_complex_step(with_dropout(with_cap(make_case({4, 2, 3}, {5, 9}, true, 4), 0.7), 0.2));
  expect_complex_step(with_blocks(make_case({2, 1, 2}, {40, 3}), some_blocks(2, 3, 16, 0.4)));
}

TEST(Attention, SequenceLengths) {
  for (const std::int32_t n : {1, 2, 3, 15, 16, 31, 32, 33, 63, 64, 65, 96, 97, 127, 129, 200, 300})
    expect_right(make_case({2, 2, 16}, {n}));
}
TEST(Attention, HeadWidths) {
  for (const std::int64_t d : {1, 2, 3, 5, 8, 15, 16, 17, 31, 33, 40, 64, 72, 80, 96, 100, 128, 192, 256})
    expect_right(make_case({2, 1, d}, {70, 3}));
}
TEST(Attention, SharedKeys) {
  for (const Heads heads :
       {Heads{1, 1, 24}, Heads{3, 3, 24}, Heads{4, 2, 24}, Heads{6, 2, 24}, Heads{7, 1, 24}})
    expect_right(make_case(heads, {150, 330}));
}
TEST(Attention, PackedSequences) {
  expect_right(make_case({2, 2, 32}, {1, 1, 64, 5, 0, 130, 2, 63, 65, 31, 33}));
  expect_right(make_case({4, 2, 20}, {1, 7, 64, 5, 0, 130, 2, 63}, false));
}
TEST(Attention, Windows) {
  for (const std::int64_t w : {1, 2, 3, 31, 32, 33, 63, 64, 65, 100, 128, 129, 1000})
    expect_right(make_case({2, 1, 16}, {210, 40}, true, w));
  for (const std::int64_t w : {1, 20, 64, 70}) expect_right(make_case({2, 1, 16}, {140, 40}, false, w));
}
TEST(Attention, SeesEverythingWithoutACausalMask) {
  for (const std::int32_t n : {1, 33, 64, 65, 129, 191}) expect_right(make_case({2, 2, 16}, {n}, false));
}

TEST(Attention, BiasByDistance) {
  for (const std::int64_t reach : {0, 1, 5, 31, 63, 64, 65, 129, 400})
    for (const bool causal : {true, false})
      expect_right(with_bias(make_case({4, 2, 16}, {1, 210, 64, 3}, causal), reach));
  expect_right(with_bias(make_case({3, 3, 20}, {130}, true, 40), 50));
  Case scaled = with_bias(make_case({2, 2, 8}, {70, 5}, false), 12);
  scaled.scale = 1;  // as in T5
  expect_right(scaled);
}
TEST(Attention, KeysOfOtherTokens) {
  expect_right(with_keys(make_case({2, 2, 16}, {1, 64, 3, 70, 130, 0}), {70, 1, 64, 3, 65, 9}));
  expect_right(with_keys(make_case({4, 2, 40}, {5, 300}), {200, 33}));
}
// Query i sees the keys from i + 1 - window to i; the last queries see only some.
TEST(Attention, WindowsOverKeysOfOtherTokens) {
  for (const std::int64_t w : {1, 2, 31, 63, 64, 65, 200})
    for (const std::int32_t queries : {1, 40, 130})
      if (queries - w < 70) expect_right(with_keys(make_case({4, 2, 16}, {queries}, false, w), {70}));
}
TEST(Attention, Dropout) {
  expect_right(with_dropout(make_case({4, 2, 16}, {70, 1, 33}), 0.5));
  expect_right(with_dropout(with_bias(make_case({2, 2, 16}, {150, 66}, false), 30), 0.1));
  expect_right(with_dropout(with_keys(make_case({2, 2, 16}, {5, 100}), {90, 33}), 0.25));
}

TEST(Attention, CapsOfScores) {
  for (const double cap : {0.3, 2.0, 50.0}) {
    expect_right(with_cap(make_case({4, 2, 16}, {1, 210, 64}), cap));
    expect_right(with_cap(make_case({2, 1, 40}, {150, 3}, true, 70), cap));
  }
  expect_right(with_cap(make_case({2, 1, 256}, {130}, true, 40), 1));
  expect_right(with_dropout(with_cap(make_case({2, 2, 16}, {70, 33}, false), 1), 0.3));
}

TEST(Attention, Blocks) {
  for (const std::int64_t block : {16, 32, 64, 128})
    for (const double share : {0.0, 0.3}) {
      const BlockLayout shared = some_blocks(1, 48, block, share), own = some_blocks(4, 20, block, share);
      expect_right(with_blocks(make_case({4, 2, 16}, {1, 290, 64}), shared));
      expect_right(with_blocks(make_case({4, 2, 16}, {17, 200}, false), own));
    }
  const BlockLayout few = some_blocks(2, 70, 16, 0.05);
  expect_right(with_blocks(make_case({2, 2, 16}, {600}), few));  // more blocks than bits in a word
  expect_right(with_blocks(make_case({2, 1, 16}, {210, 40}, true, 50), some_blocks(2, 20, 16, 0.5)));
  expect_right(with_blocks(with_bias(make_case({2, 2, 16}, {210, 40}, false), 30), few));
  expect_right(with_blocks(with_dropout(make_case({2, 2, 16}, {150}, false), 0.3), few));
}
// If all blocks are kept, the result has the bits of dense attention.
TEST(Attention, AllBlocksAreDenseAttention) {
  const BlockLayout all = some_blocks(1, 20, 16, 1);
  for (const Case& c : {make_case({4, 2, 24}, {210, 33}), make_case({2, 2, 24}, {210, 33}, false)})
    for (const DType type : {DType::f32, DType::bf16})
      for (const auto& [name, kernels, bf16_dot] : all_kernels()) {
        const Inputs in(c, type);
        const Outputs dense = run(kernels, c, type, in, 2),
                      blocks = run(kernels, with_blocks(c, all), type, in, 2);
        for (const auto part : {&Outputs::y, &Outputs::lse, &Outputs::dq, &Outputs::dk, &Outputs::dv})
          EXPECT_TRUE(dense.*part == blocks.*part) << describe(c, type, name);
      }
}

TEST(Attention, ThreadsDoNotChangeABit) {
  const BlockLayout blocks = some_blocks(1, 30, 16, 0.3);
  // With few heads the gradient is split into parts with three threads, but not with one.
  for (const Case& c : {make_case({1, 1, 40}, {333}), make_case({4, 2, 40}, {290, 31, 70, 1}, true, 100),
                        make_case({8, 1, 24}, {400}, false), make_case({6, 6, 130}, {130, 70}),
                        with_dropout(with_bias(make_case({2, 1, 24}, {333, 80}), 90), 0.1),
                        with_keys(make_case({1, 1, 40}, {40, 300}), {300, 40}),
                        with_blocks(make_case({2, 1, 40}, {333, 80}), blocks)})
    for (const DType type : {DType::f32, DType::bf16, DType::f16})
      for (const auto& [name, kernels, bf16_dot] : all_kernels()) {
        const Inputs in(c, type);
        const Outputs one = run(kernels, c, type, in, 1);
        for (const int threads : {1, 2, 3, 8})
          EXPECT_TRUE(run(kernels, c, type, in, threads) == one) << describe(c, type, name) << " " << threads;
      }
}

TEST(Attention, LargeScoresStayFinite) {
  const Case c = make_case({2, 1, 64}, {150}, true, 90);
  for (const DType type : {DType::f32, DType::bf16, DType::f16})
    for (const double size : {30.0, 1e3, 1e4, 1e9}) {
      if (type == DType::f16 && size > 1e3) continue;  // the gradients exceed its range
      const Inputs in(c, type, size);
      const double most = *std::max_element(in.v.begin(), in.v.end());
      Values y, lse;
      c.forward(y, lse, in.q, in.k, in.v);
      for (const auto& [name, kernels, bf16_dot] : all_kernels()) {
        SCOPED_TRACE(describe(c, type, name));
        const Outputs out = run(kernels, c, type, in, 2);
        for (const double x : out.y.values()) ASSERT_LE(x, most * 1.01);
        for (const double x : out.by_range.values()) ASSERT_LE(x, most * 1.01);
        EXPECT_LT(nmse(out.lse.values(), lse), 1e-11);
        for (const Padded* t : {&out.y, &out.by_range, &out.dq, &out.dk, &out.dv})
          for (const double x : t->values()) ASSERT_TRUE(std::isfinite(x));
      }
    }
}

TEST(Attention, NanIsNotHidden) {
  const Case c = make_case({1, 1, 16}, {80});
  Inputs in(c, DType::f32);
  in.k[70 * 16 + 3] = NAN;
  for (const auto& [name, kernels, bf16_dot] : all_kernels()) {
    const Outputs out = run(kernels, c, DType::f32, in, 1);
    for (const Values& y : {out.y.values(), out.by_range.values()}) {
      EXPECT_TRUE(std::isfinite(y[69 * 16])) << name;  // the NaN is in a later key
      EXPECT_TRUE(std::isnan(y[70 * 16])) << name;
    }
  }
}

TEST(Attention, WorkspaceIsKnownBeforeTheFirstCall) {
  Team team(3);
  const Attention attention(all_kernels().front().kernels, team);
  EXPECT_EQ(attention.workspace_bytes(), 3 << 23);
}

TEST(Attention, RefusesWrongShapes) {
  Team team(1);
  Attention attention(all_kernels().front().kernels, team);
  const Case c = make_case({1, 1, 4096}, {2});
  const Padded q(DType::f32, 2, 4096, 0), lse(DType::f32, 1, 2, 0);
  EXPECT_THROW(attention.forward({q, lse, q, q, q, c.heads, {c.starts}}), InternalError);
  const Case narrow = make_case({1, 1, 16}, {2});
  const Padded x(DType::f32, 2, 16, 0);
  Ranges beyond(narrow);
  beyond.count[1] = 3;
  const op::AttentionRanges refused{
      .y = x, .q = x, .k = x, .v = x, .heads = narrow.heads, .ranges = beyond.tensors()};
  EXPECT_THROW(refused.check_indices(), InternalError);
  // A layout with fewer blocks than a sequence has, and one for other heads.
  for (const BlockLayout& layout : {some_blocks(1, 1, 16, 1), some_blocks(3, 2, 16, 1)}) {
    const Case blocks = with_blocks(make_case({2, 2, 8}, {20}), layout);
    const Padded y(DType::f32, 20, 16, 0), l(DType::f32, 2, 20, 0);
    std::vector<std::uint32_t> words(static_cast<std::size_t>(layout.heads() * layout.blocks()));
    const op::Attention small{
        y,
        l,
        y,
        y,
        y,
        blocks.heads,
        Mask{.starts = blocks.starts, .blocks = {&layout, Bits::tensor(words, blocks)}}};
    EXPECT_THROW(small.check(), InternalError);
  }
}

}  // namespace
}  // namespace ft::cpu
