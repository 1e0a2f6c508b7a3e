// Sparse attention of the CUDA backend and its gradient against the CPU's.
#include "tests/engine/cuda/both.h"

#include "engine/core/error.h"

namespace ft::cuda {
namespace {

struct SparseCase {
  Heads heads;
  std::vector<std::int32_t> starts;
  std::int64_t block = 16;
  bool causal = true, of_each_head = false;
  std::int64_t window = 0, reach = -1;  // -1: no bias
  float dropout = 0;
  int nth = 4;  // of the blocks other than a row's own, every nth is kept
};

BlockLayout layout_of(const SparseCase& c) {
  BlockLayout layout(c.of_each_head ? c.heads.query : 1, 600 / c.block + 1, c.block);
  for (std::int64_t h = 0; h < layout.heads(); ++h)
    for (std::int64_t row = 0; row < layout.blocks(); ++row)
      for (std::int64_t column = 0; column < layout.blocks(); ++column)
        if (row == column || (row * 5 + column * 3 + h) % c.nth == 0) layout.keep(h, row, column);
  return layout;
}

std::vector<double> numbers(const std::vector<std::uint32_t>& bits) {
  std::vector<double> v;
  for (const std::uint32_t b : bits) v.push_back(static_cast<std::int32_t>(b));
  return v;
}

// Returns the rows of bits of each head that sequences of up to `longest` tokens need.
std::vector<std::uint32_t> corner(const BlockLayout& layout, std::int64_t longest) {
  std::vector<std::uint32_t> bits;
  for (std::int64_t h = 0; h < layout.heads(); ++h)
    for (std::int64_t r = 0; r * layout.block() < longest; ++r) {
      const auto row = layout.row(h, r);
      bits.insert(bits.end(), row.begin(), row.end());
    }
  return bits;
}

void expect_sparse_right(const SparseCase& c, DType type) {
  SCOPED_TRACE(str(name_of(type), " heads ", c.heads.query, "/", c.heads.key_value, " of ", c.heads.width,
                   ", blocks of ", c.block, ", causal ", c.causal, ", window ", c.window, ", reach ",
                   c.reach));
  const BlockLayout layout = layout_of(c);
  std::int32_t longest = 0;
  for (std::size_t i = 1; i < c.starts.size(); ++i)
    longest = std::max(longest, c.starts[i] - c.starts[i - 1]);
  const std::vector<std::uint32_t> bits = corner(layout, longest);
  const bool biased = c.reach >= 0;
  const std::int64_t rows = c.starts.back(), query = c.heads.query * c.heads.width,
                     key = c.heads.key_value * c.heads.width, distances = biased ? 2 * c.reach + 1 : 1;
  Trial t{type, rows, query};
  t.matrix(1);                                                  // y
  t.vector(c.heads.query * rows, DType::f32);                   // lse
  t.matrix(2);                                                  // q
  t.matrix(rows, key, type).randomize(3);                       // k
  t.matrix(rows, key, type).randomize(4);                       // v
  t.matrix(5);                                                  // dq
  t.matrix(rows, key, type);                                    // dk
  t.matrix(rows, key, type);                                    // dv
  t.matrix(6);                                                  // dy
  t.matrix(distances, c.heads.query, type).randomize(7);        // bias
  t.matrix(distances, c.heads.query, DType::f32).randomize(8);  // dbias
  t.vector(std::ssize(bits), DType::i32).assign(numbers(bits));
  t.expect_same(
      [&](Ops& ops, const Tensors& x) {
        const Mask mask{.starts = c.starts,
                        .causal = c.causal,
                        .window = c.window,
                        .blocks = {&layout, x[11].view({x[11].numel() / layout.words(), layout.words()})}};
        const AttentionPair pair = attention_of(x, c.heads, mask, {0.3f, {}, c.dropout, Random{5}}, biased);
        ops.run(pair.forward());
        ops.run(pair.backward());
      },
      type == DType::bf16  ? 1e-4
      : type == DType::f16 ? 4e-6
                           : 1e-10);
}
void expect_sparse_right(const SparseCase& c) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) expect_sparse_right(c, type);
}

TEST(CudaSparseAttention, BlocksOfEverySize) {
  for (const std::int64_t block : {16, 32, 64, 128}) {
    expect_sparse_right({.heads = {2, 2, 16}, .starts = {0, 1, 150, 150, 167}, .block = block});
    expect_sparse_right({.heads = {2, 1, 24}, .starts = {0, 200}, .block = block, .causal = false});
  }
}
TEST(CudaSparseAttention, HeadsWithDifferentLayouts) {
  expect_sparse_right({.heads = {2, 1, 16}, .starts = {0, 170, 200}, .of_each_head = true});
  expect_sparse_right(
      {.heads = {3, 3, 8}, .starts = {0, 100}, .block = 32, .causal = false, .of_each_head = true});
}
// On tensor cores: several tiles of rows, and steps of keys that no row of a tile needs.
TEST(CudaSparseAttention, LongSequences) {
  for (const bool causal : {true, false})
    expect_sparse_right({.heads = {1, 1, 64}, .starts = {0, 450}, .block = 64, .causal = causal, .nth = 23},
                        DType::bf16);
  expect_sparse_right({.heads = {1, 1, 128}, .starts = {0, 20, 330}, .nth = 60}, DType::f16);
}
TEST(CudaSparseAttention, WithAWindowABiasAndDropout) {
  expect_sparse_right({.heads = {2, 1, 16}, .starts = {0, 30, 200}, .window = 50});
  expect_sparse_right({.heads = {2, 2, 16}, .starts = {0, 20, 190}, .causal = false, .reach = 40});
  expect_sparse_right(
      {.heads = {2, 2, 16}, .starts = {0, 20, 150}, .causal = false, .reach = 9, .dropout = 0.2f});
}

TEST(CudaSparseAttention, QueriesOfAKeyCache) {
  for (const bool of_each_head : {false, true})
    for (const DType type : {DType::f32, DType::bf16}) {
      const SparseCase c{.heads = {4, 2, 33}, .starts = {}, .of_each_head = of_each_head};
      const BlockLayout layout = layout_of(c);
      const std::vector<double> count{1, 60, 200, 33};
      std::vector<std::uint32_t> bits;
      for (const double n : count)
        for (std::int64_t h = 0; h < layout.heads(); ++h) {
          const auto row = layout.row(h, (static_cast<std::int64_t>(n) - 1) / 16);
          bits.insert(bits.end(), row.begin(), row.end());
        }
      Trial t{type, 4, 4 * 33};
      t.matrix(1);
      t.matrix(2);
      t.matrix(250, 66, type).randomize(3);
      t.matrix(250, 66, type).randomize(4);
      t.vector(4, DType::i32).assign({0, 3, 40, 217});
      t.vector(4, DType::i32).assign(count);
      t.vector(std::ssize(bits), DType::i32).assign(numbers(bits));
      for (const std::int64_t window : {0, 40})
        t.expect_same(
            [&](Ops& ops, const Tensors& x) {
              ops.run(op::AttentionRanges{
                  .y = x[0],
                  .q = x[1],
                  .k = x[2],
                  .v = x[3],
                  .heads = c.heads,
                  .ranges = {x[4], x[5], window, x[6].view({4 * layout.heads(), layout.words()}), 16},
                  .scores = {.scale = 0.2f}});
            },
            type == DType::bf16 ? 1e-4 : 1e-11);
    }
}

}  // namespace
}  // namespace ft::cuda
