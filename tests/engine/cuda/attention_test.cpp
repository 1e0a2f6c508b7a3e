// Attention of the CUDA backend and its gradient against the CPU's.
#include "tests/engine/cuda/both.h"

#include "engine/core/error.h"

namespace ft::cuda {
namespace {

struct Case {
  Heads heads;
  std::vector<std::int32_t> lengths;
  bool causal = true;
  std::int64_t window = 0;
  std::vector<std::int32_t> key_lengths{};  // for cross-attention; empty: lengths
  std::int64_t reach = -1;                  // of the bias; -1: none
  float dropout = 0;
  double spread = 2;  // magnitude of the bias
  std::vector<DType> types{DType::f32, DType::bf16, DType::f16};
  float cap = 0;
};

std::vector<std::int32_t> starts_of(const std::vector<std::int32_t>& lengths) {
  std::vector<std::int32_t> starts{0};
  for (const std::int32_t n : lengths) starts.push_back(starts.back() + n);
  return starts;
}

// Returns true for the calls for which Hopper may have kernels of its own: for all others the capabilities
// have the same kernels, and one of them is enough.
bool may_differ_on_hopper(const Case& c, DType type) {
  return type != DType::f32 && c.cap == 0 && c.heads.width <= 128 && c.heads.width % 8 == 0;
}

// on_all: with every capability, also where the kernels are the same.
void expect_right(const Case& c, bool on_all = false) {
  const std::vector<std::int32_t> starts = starts_of(c.lengths), others = starts_of(c.key_lengths);
  const bool cross = !c.key_lengths.empty(), biased = c.reach >= 0;
  const std::int64_t rows = starts.back(), key_rows = cross ? others.back() : rows,
                     query = c.heads.query * c.heads.width, key = c.heads.key_value * c.heads.width,
                     distances = biased ? 2 * c.reach + 1 : 1;
  for (const DType type : c.types)
    for (const std::int64_t pad : {type == DType::f32 ? 3 : 0, 8}) {
      if (pad == 8 && rows > 40) continue;
      SCOPED_TRACE(str(name_of(type), " heads ", c.heads.query, "/", c.heads.key_value, " of ", c.heads.width,
                       ", ", rows, " rows, causal ", c.causal, ", window ", c.window, ", reach ", c.reach,
                       ", dropout ", c.dropout, ", cap ", c.cap, ", pad ", pad));
      const double rounding = type == DType::bf16  ? 1e-4
                              : type == DType::f16 ? 2e-6
                              : biased             ? 1e-10  // sums over all pairs may cancel out
                                                   : 1e-11;
      Trial t{type, rows, query, pad};
      t.matrix(1);                                                      // y
      t.vector(c.heads.query * rows, DType::f32);                       // lse
      t.matrix(2);                                                      // q
      t.matrix(key_rows, key, type).randomize(3);                       // k
      t.matrix(key_rows, key, type).randomize(4);                       // v
      t.matrix(5);                                                      // dq
      t.matrix(key_rows, key, type);                                    // dk
      t.matrix(key_rows, key, type);                                    // dv
      t.matrix(6);                                                      // dy
      t.matrix(distances, c.heads.query, type).randomize(7, c.spread);  // bias
      t.matrix(distances, c.heads.query, DType::f32).randomize(8);      // dbias
      const Call call = [&](Ops& ops, const Tensors& x) {
        Mask mask{starts, c.causal, c.window};
        if (cross) mask.key_starts = others;
        const auto scale = static_cast<float>(1 / std::sqrt(double(c.heads.width)));
        const AttentionPair pair =
            attention_of(x, c.heads, mask, {scale, {}, c.dropout, Random{5}, c.cap}, biased);
        ops.run(pair.forward());
        ops.run(pair.backward());
      };
      for (const int capability : capabilities()) {
        if (capability == 9 && !on_all && !may_differ_on_hopper(c, type)) continue;
        SCOPED_TRACE(str("capability ", capability));
        set_capability(capability);
        // With one bias for all pairs its gradient is 0.
        t.expect_same(call, c.reach == 0 ? 10 * rounding : rounding);
      }
      set_capability(8);
      if (testing::Test::HasFailure()) return;
    }
}

TEST(CudaAttention, SequenceLengths) {
  for (const std::int32_t n : {1, 15, 17, 64, 65, 100}) expect_right({{2, 2, 16}, {n}});
}
TEST(CudaAttention, SeveralTiles) {
  expect_right({{1, 1, 64}, {129, 300}});
  expect_right({{2, 1, 64}, {130, 100}});
  expect_right({{1, 1, 128}, {200}, false});
  expect_right({{2, 1, 96}, {140, 3}, true, 70});
  expect_right({{1, 1, 24}, {280}, true, 65});
  expect_right({{1, 1, 64}, {150}, false, 30});
  // more tiles than there are slots
  expect_right({.heads = {1, 1, 128}, .lengths = {330}, .types = {DType::bf16}});
}
// On tensor cores: biases on all sides of the diagonal, heads that share keys, steps that begin at a window's
// edge.
TEST(CudaAttention, SeveralTilesWithABiasAndDropout) {
  const auto in = [](DType type, Case c) {
    c.types = {type};
    expect_right(c);
  };
  in(DType::f16, {.heads = {2, 1, 64}, .lengths = {3, 190}, .causal = false, .reach = 34});
  in(DType::bf16, {.heads = {1, 1, 128}, .lengths = {150}, .causal = false, .reach = 129, .dropout = 0.1f});
  in(DType::f16, {.heads = {1, 1, 40}, .lengths = {140}, .window = 30, .reach = 9, .dropout = 0.3f});
  in(DType::bf16,
     {.heads = {2, 1, 96}, .lengths = {140}, .causal = false, .key_lengths = {70}, .dropout = 0.5f});
  // Rows beyond a sequence do not count, even if their bias alone makes their scores infinite.
  in(DType::bf16, {.heads = {2, 2, 16}, .lengths = {20, 3}, .causal = false, .reach = 30, .spread = 300});
  // more distances than fit: the plain kernel
  in(DType::bf16, {.heads = {1, 1, 8}, .lengths = {9}, .reach = 200});
}
// On Hopper, warpgroups compute the products of heads of up to 64 columns. With a bias, only of heads that do
// not share keys.
TEST(CudaAttention, SeveralTilesOfWarpgroupsWithABiasAndDropout) {
  const auto in = [](DType type, Case c) {
    c.types = {type};
    expect_right(c);
  };
  in(DType::f16, {.heads = {2, 2, 64}, .lengths = {3, 190}, .causal = false, .reach = 34, .dropout = 0.1f});
  in(DType::bf16, {.heads = {1, 1, 64}, .lengths = {330}, .reach = 128, .dropout = 0.1f});
  in(DType::f16, {.heads = {2, 2, 64}, .lengths = {140, 70}, .causal = false, .reach = 3});
  in(DType::bf16, {.heads = {3, 1, 64}, .lengths = {20, 150}, .dropout = 0.3f});
  in(DType::f16, {.heads = {1, 1, 64}, .lengths = {60, 210}, .window = 75, .dropout = 0.2f});
  in(DType::bf16,
     {.heads = {2, 2, 40}, .lengths = {140}, .causal = false, .key_lengths = {70}, .dropout = 0.5f});
}
TEST(CudaAttention, OtherCallsHaveTheSameKernelsOnHopper) {
  for (const auto& [width, type, cap] : {std::tuple{64, DType::f32, 0.0f},
                                         {136, DType::bf16, 0.0f},
                                         {100, DType::f16, 0.0f},
                                         {64, DType::bf16, 1.0f}})
    expect_right({.heads = {2, 1, width}, .lengths = {20, 3}, .types = {type}, .cap = cap}, true);
}
// Heads above 128 columns: smaller tiles, and a separate pass for dv.
TEST(CudaAttention, WideHeads) {
  const std::vector<DType> narrow{DType::bf16, DType::f16};
  const auto in = [&](Case c) {
    c.types = narrow;
    expect_right(c);
  };
  in({.heads = {2, 1, 256}, .lengths = {3, 150}});
  in({.heads = {2, 2, 256}, .lengths = {70, 65}, .causal = false});
  in({.heads = {1, 1, 256}, .lengths = {140}, .window = 50});
  in({.heads = {2, 1, 256}, .lengths = {130}, .cap = 2});
  in({.heads = {2, 1, 132}, .lengths = {80}});
  in({.heads = {1, 1, 200}, .lengths = {33, 40}, .causal = false, .key_lengths = {70, 5}});
  in({.heads = {2, 1, 256}, .lengths = {40}, .dropout = 0.25f});             // the plain kernel
  in({.heads = {1, 1, 256}, .lengths = {40}, .causal = false, .reach = 9});  // the plain kernel
  in({.heads = {2, 1, 512}, .lengths = {3, 37}, .window = 20});              // the plain kernel
  in({.heads = {1, 1, 400}, .lengths = {35}, .cap = 2});                     // the plain kernel
}
TEST(CudaAttention, HeadWidths) {
  for (const std::int64_t d : {1, 3, 17, 64, 72, 80, 96, 100, 128, 256}) expect_right({{2, 1, d}, {21, 3}});
  // In f32 their gradient needs 131 KiB of shared memory, more than many GPUs have.
  expect_right({.heads = {2, 1, 512}, .lengths = {21, 3}, .types = {DType::bf16, DType::f16}});
}
TEST(CudaAttention, SharedKeysAndFewHeadsAtATime) {
  for (const Heads h : {Heads{4, 2, 12}, Heads{6, 2, 12}, Heads{7, 1, 12}}) expect_right({h, {20, 37}});
  expect_right({{8, 8, 12}, {37, 60}});  // five heads at a time
}
TEST(CudaAttention, PackedSequences) {
  expect_right({{2, 2, 16}, {1, 1, 16, 5, 0, 40, 2, 63}});
  expect_right({{4, 2, 20}, {1, 7, 16, 5, 0, 33}, false});
}
TEST(CudaAttention, Windows) {
  for (const std::int64_t w : {1, 2, 16, 17, 1000}) expect_right({{2, 1, 16}, {50, 9}, true, w});
  for (const std::int64_t w : {1, 20, 50}) expect_right({{2, 1, 16}, {50, 9}, false, w});
}
TEST(CudaAttention, SeesEverythingWithoutACausalMask) {
  for (const std::int32_t n : {1, 16, 33}) expect_right({{2, 2, 16}, {n}, false});
}

TEST(CudaAttention, BiasByDistance) {
  for (const std::int64_t reach : {0, 3, 70})
    for (const bool causal : {true, false})
      expect_right({.heads = {4, 2, 12}, .lengths = {20, 1, 37}, .causal = causal, .reach = reach});
}
TEST(CudaAttention, KeysOfOtherTokens) {
  expect_right(
      {.heads = {2, 2, 16}, .lengths = {1, 16, 3, 40, 0}, .causal = false, .key_lengths = {40, 1, 16, 5, 9}});
  expect_right({.heads = {4, 2, 64}, .lengths = {5, 33}, .causal = false, .key_lengths = {33, 20}});
}
TEST(CudaAttention, WindowsOverKeysOfOtherTokens) {
  for (const std::int64_t w : {1, 20, 50}) {
    expect_right({{2, 1, 16}, {40}, false, w, {40}});
    expect_right({{2, 1, 64}, {20}, false, w, {70}});
  }
  expect_right({.heads = {2, 2, 64},
                .lengths = {150},
                .causal = false,
                .window = 70,
                .key_lengths = {140},
                .types = {DType::bf16}});
}
TEST(CudaAttention, PartsAreMerged) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16})
    for (const std::int64_t pad : {0, 3}) {
      Trial t{type, 21, 4 * 40, pad};
      t.matrix(21, 4 * 40, DType::f32).randomize(1);
      t.matrix(4, 21, DType::f32).randomize(2);
      t.matrix(3);
      t.matrix(4, 21, DType::f32).randomize(4);
      t.expect_same(
          [&](Ops& ops, const Tensors& x) {
            ops.run(op::MergeAttention{.y = x[0], .lse = x[1], .other = x[2], .other_lse = x[3]});
          },
          1e-12);
    }
}
TEST(CudaAttention, Dropout) {
  expect_right({.heads = {4, 2, 16}, .lengths = {20, 1, 33}, .dropout = 0.5f});
  expect_right({.heads = {2, 2, 16}, .lengths = {20, 33}, .causal = false, .reach = 7, .dropout = 0.1f});
  expect_right(
      {.heads = {2, 2, 16}, .lengths = {5, 20}, .causal = false, .key_lengths = {30, 3}, .dropout = 0.25f});
}

TEST(CudaAttention, CapsOfScores) {
  for (const float cap : {0.5f, 30.0f}) {
    expect_right({.heads = {4, 2, 16}, .lengths = {20, 1, 37}, .cap = cap});
    expect_right({.heads = {2, 1, 256}, .lengths = {40}, .window = 9, .cap = cap});
  }
  expect_right({.heads = {2, 1, 128}, .lengths = {3, 150}, .window = 70, .types = {DType::bf16}, .cap = 1});
  expect_right({.heads = {2, 2, 64}, .lengths = {140}, .types = {DType::f16}, .cap = 1});
  expect_right({.heads = {2, 2, 16}, .lengths = {33}, .dropout = 0.5f, .cap = 1});
}

TEST(CudaAttention, QueriesOfAKeyCache) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16})
    for (const Heads h : {Heads{2, 2, 16}, Heads{4, 2, 33}, Heads{3, 1, 256}, Heads{2, 1, 512}})
      for (const std::int64_t window : {0, 1, 6}) {
        SCOPED_TRACE(str(name_of(type), " heads ", h.query, "/", h.key_value, " window ", window));
        Trial t{type, 4, h.query * h.width, 3};
        t.matrix(1);
        t.matrix(2);
        t.matrix(50, h.key_value * h.width, type).randomize(3);
        t.matrix(50, h.key_value * h.width, type).randomize(4);
        t.vector(4, DType::i32).assign({0, 3, 10, 49});
        t.vector(4, DType::i32).assign({1, 4, 40, 1});
        t.matrix(21, h.query, type).randomize(5);
        for (const bool biased : {false, true})
          t.expect_same(  // without a bias there is a cap
              [&](Ops& ops, const Tensors& x) {
                ops.run(op::AttentionRanges{
                    .y = x[0],
                    .q = x[1],
                    .k = x[2],
                    .v = x[3],
                    .heads = h,
                    .ranges = {x[4], x[5], window},
                    .scores = {
                        .scale = 0.2f, .bias = biased ? x[6] : Tensor{}, .cap = biased ? 0.0f : 1.5f}});
              },
              type == DType::bf16  ? 1e-4
              : type == DType::f16 ? 2e-6
                                   : 1e-11);
      }
}

TEST(CudaAttention, TooWideAHeadIsAUserError) {
  auto ops = make_cuda_ops(0, kSmall);
  Matrix x(2, 600, DType::f32), lse(1, 2, DType::f32);
  const OnGpu q(*ops, x, 0), l(*ops, lse, 0);
  const std::vector<std::int32_t> starts{0, 2};
  try {
    ops->run(op::Attention{.y = q.tensor,
                           .lse = l.tensor,
                           .q = q.tensor,
                           .k = q.tensor,
                           .v = q.tensor,
                           .heads = {1, 1, 600},
                           .mask = {starts}});
    ADD_FAILURE() << "accepted";
  } catch (const UserError& e) {
    EXPECT_EQ(e.code, Exit::hardware);
    EXPECT_STREQ(
        e.what(),
        "device cuda: attention heads of 600 columns; the GPU kernels support up to 512; use device=cpu");
  }
}

}  // namespace
}  // namespace ft::cuda
