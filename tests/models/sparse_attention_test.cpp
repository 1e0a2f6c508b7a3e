// Models with sparse attention: all blocks give dense attention; packed sequences, a cache and recomputation
// change nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/models/golden_case.h"

namespace ft::test {
namespace {

SparseAttentionConfig sliding(std::int64_t blocks) {
  return {.mode = SparsityMode::local, .max_seq_length = 128, .num_sliding_window_blocks = blocks};
}
// Layouts that differ between heads, with random blocks.
SparseAttentionConfig random_blocks() {
  return {.mode = SparsityMode::bigbird,
          .max_seq_length = 128,
          .different_layout_per_head = true,
          .num_random_blocks = 1,
          .num_sliding_window_blocks = 1};
}

// Returns a golden case with samples of several blocks.
GoldenCase long_case(const std::string& name) {
  GoldenCase golden(name);
  const bool pairs = !golden.batches[0][0].source_ids.empty();
  golden.batches = {{}};
  for (const std::int32_t n : {90, 17, 64}) {
    Batch b;
    const std::int32_t own = pairs ? 9 : n;
    for (std::int32_t i = 0; i < own; ++i) {
      b.input_ids.push_back(3 + i * 7 % 50);
      b.positions.push_back(i);
      b.target_rows.push_back(i);
      b.targets.push_back(3 + i * 5 % 50);
    }
    b.starts = {0, own};
    for (std::int32_t i = 0; i < n && pairs; ++i) b.source_ids.push_back(2 + i * 11 % 50);
    if (pairs) b.source_starts = {0, n};
    golden.batches[0].push_back(std::move(b));
  }
  return golden;
}

class SparseModel : public testing::TestWithParam<const char*> {
 protected:
  GoldenCase golden = long_case(GetParam());
  const std::vector<Batch>& samples() const { return golden.batches[0]; }
  GoldenRun::Pass pass(const SparseAttentionConfig& sparse, std::int64_t recompute = 0) const {
    return GoldenRun(golden, {.recompute = recompute, .sparse = sparse}).pass({GoldenCase::join(samples())});
  }
};

TEST_P(SparseModel, AllBlocksAreDenseAttention) {
  const auto dense = pass({}), some = pass(sliding(1)),
             all = pass({.mode = SparsityMode::fixed, .max_seq_length = 128, .num_local_blocks = 8});
  EXPECT_EQ(all.loss, dense.loss);
  EXPECT_EQ(all.gradients, dense.gradients);
  EXPECT_GT(std::abs(some.loss - dense.loss), 1e-4);
}

TEST_P(SparseModel, RecomputationChangesNoBit) {
  const auto kept = pass(random_blocks()), again = pass(random_blocks(), kAllBlocks);
  EXPECT_EQ(kept.loss, again.loss);
  EXPECT_EQ(kept.gradients, again.gradients);
}

TEST_P(SparseModel, PackedSequencesAreIsolated) {
  GoldenRun run(golden, {.sparse = random_blocks()});
  Values alone;
  for (const Batch& b : samples()) {
    const Values one = run.logits(b);
    alone.insert(alone.end(), one.begin(), one.end());
  }
  EXPECT_EQ(run.logits(GoldenCase::join(samples())), alone);
}

TEST_P(SparseModel, TokenByTokenEqualsTheCompleteSequence) {
  GenerationShape shape{{std::ssize(samples()), 0}, 0};
  for (const Batch& b : samples()) {
    shape.cache.capacity = std::max(shape.cache.capacity, b.tokens());
    shape.tokens += b.tokens();
    if (b.source_ids.empty()) continue;
    shape.cache.sources = shape.cache.slots;
    shape.cache.source_capacity = std::max(shape.cache.source_capacity, std::ssize(b.source_ids));
    shape.source_tokens += std::ssize(b.source_ids);
  }
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const SparseAttentionConfig& sparse : {sliding(3), random_blocks()}) {
      GoldenRun run(golden, {.dtype = dtype, .generation = shape, .sparse = sparse});
      for (const std::int32_t first : {1, 8}) {
        Values whole;
        for (const Batch& b : samples()) {
          const Values all = run.logits(b);
          const auto vocab = static_cast<std::ptrdiff_t>(all.size()) / b.tokens();
          whole.insert(whole.end(), all.begin() + (first - 1) * vocab, all.end());
        }
        EXPECT_LT(nmse(run.cached_logits(samples(), first), whole), dtype == DType::f32 ? 1e-11 : 1e-3);
      }
    }
}

TEST_P(SparseModel, RefusesLongerSequencesThanItsLayout) {
  SparseAttentionConfig sparse = sliding(3);
  sparse.max_seq_length = 80;
  try {
    pass(sparse);
    ADD_FAILURE() << "accepted";
  } catch (const UserError& e) {
    EXPECT_STREQ(
        e.what(),
        "model.sparse_attention.max_seq_length: the layout is for 80 tokens and a sequence has up to "
        "90; set it to 90");
  }
}

INSTANTIATE_TEST_SUITE_P(Models, SparseModel,
                         testing::Values("llama-gqa", "mistral-window", "lora-q-v", "t5-v11"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace ft::test
