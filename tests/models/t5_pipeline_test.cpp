// T5 in pipelines: encoder and decoder split at any block, tied and not, gated and not.
#include "models/t5/relative_bias.h"
#include "tests/models/pipeline_run.h"

namespace ft::test {
namespace {

Json layers_of(std::int64_t encoder, std::int64_t decoder) {
  return {{"num_layers", encoder}, {"num_decoder_layers", decoder}, {"num_heads", 4}};
}

// t5 is tied and not gated, t5-v11 is gated with a separate head.
class T5Pipelines : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, T5Pipelines, testing::Values("t5", "t5-v11"), [](const auto& test) {
  return std::string(test.param).substr(0, 2) + std::to_string(test.index);
});

// Stages of the encoder only, of the decoder only, of both; more micro-batches than stages, and fewer.
TEST_P(T5Pipelines, HaveOneRanksBits) {
  for (const auto& [encoder, decoder] : {std::pair{3, 4}, std::pair{1, 4}, std::pair{5, 1}})
    for (const Method method : {Method::full, Method::lora})
      for (const int micro_batches : {5, 1}) {
        Case s{.golden = GetParam(), .method = method, .change = layers_of(encoder, decoder)};
        s.micro_batches = micro_batches;
        const Ran one = run_on(s, grid_of(1));
        for (const int stages : {2, 3, 5})
          for (const std::int64_t recompute : {0, 1, 2, 9}) {
            SCOPED_TRACE(str(encoder, " + ", decoder, " blocks, ", stages, " stages, ", micro_batches,
                             " micro-batches, ", recompute, " again"));
            s.recompute = recompute;
            expect_same(run_on(s, grid_of(stages)), one);
          }
      }
}

TEST_P(T5Pipelines, HaveTheBitsOfTheGridWithoutThem) {
  expect_bits_beside_other_axes({.golden = GetParam(), .change = layers_of(2, 3)}, 3);
}

TEST_P(T5Pipelines, ComputeIn16BitsAndWith4BitWeights) {
  expect_bits_of_low_precision({.golden = GetParam(), .change = layers_of(3, 2)},
                               {{"d_model", 64}, {"d_kv", 16}, {"d_ff", 128}});
}

// Bytes that a stage sends for a step's micro-batches in f32: states of sources and targets, and the biases
// of distances of each stack.
struct Rows {
  std::int64_t sources = 0, targets = 0, of_sources = 0, of_targets = 0;  // bytes of states, of distances
};
Rows rows_of(const Case& s) {
  const GoldenCase golden(s.golden);
  const Json config = read_json(golden.model_folder() + "/config.json");
  const std::int64_t row = config["d_model"].get<std::int64_t>() * 4, distance = 4 * 4;  // of four heads
  const auto distances = [&](const std::vector<std::int32_t>& starts, bool both_sides) {
    const std::int64_t most = config["relative_attention_max_distance"];
    const std::int64_t reach = std::min(longest_of(starts) - 1, most + 1);
    return std::ssize(
        t5::trimmed(t5::buckets_of(reach, both_sides, config["relative_attention_num_buckets"], most)));
  };
  Rows r;
  std::int64_t taken = 0;
  for (const auto& samples : golden.batches)
    for (const Batch& b : samples) {
      if (taken++ == s.micro_batches) return r;
      r.sources += std::ssize(b.source_ids) * row;
      r.targets += b.tokens() * row;
      r.of_sources += distances(b.source_starts, true) * distance;
      r.of_targets += distances(b.starts, false) * distance;
    }
  EXPECT_EQ(taken, s.micro_batches);
  return r;
}

// Stages send states of sources and targets, and the bias of a stack that is split; gradients are sent back
// if an earlier stage trains a block.
TEST_P(T5Pipelines, SendTheBytesOfTheFormula) {
  const auto sent = [](Case s, std::int64_t encoder, std::int64_t decoder, Method method) {
    s.change = layers_of(encoder, decoder);
    s.method = method;
    const Ran ran = run_on(s, grid_of(2));
    return std::pair{ran.sent, ran.sent_down};
  };
  Case s{.golden = GetParam(), .micro_batches = 4};
  const Rows r = rows_of(s);
  const std::int64_t all = r.sources + r.targets;
  using Sent = std::pair<std::int64_t, std::int64_t>;
  EXPECT_EQ(sent(s, 3, 4, Method::full), (Sent{all, all}));  // split between the stacks
  EXPECT_EQ(sent(s, 5, 2, Method::full), (Sent{all + r.of_sources, all + r.of_sources}));
  EXPECT_EQ(sent(s, 2, 5, Method::full), (Sent{all + r.of_targets, all + r.of_targets}));
  EXPECT_EQ(sent(s, 3, 4, Method::lora), (Sent{all, r.sources}));  // embedded targets need no gradient
  EXPECT_EQ(sent(s, 5, 2, Method::lora), (Sent{all + r.of_sources, r.sources}));
  EXPECT_EQ(sent(s, 2, 5, Method::lora), (Sent{all + r.of_targets, all}));
  s.adapted = {4};  // in the decoder's second stage: no gradient is sent back
  EXPECT_EQ(sent(s, 2, 5, Method::lora), (Sent{all + r.of_targets, 0}));
}

// Only the last block of each stack is trained, so the first stages have no backward pass.
TEST_P(T5Pipelines, TrainSomeBlocks) {
  for (const auto& [encoder, decoder] : {std::pair{5, 5}, std::pair{2, 5}, std::pair{5, 2}}) {
    const Case s{
        .golden = GetParam(), .method = Method::lora, .change = layers_of(encoder, decoder), .adapted = {4}};
    expect_same(run_on(s, grid_of(5)), run_on(s, grid_of(1)));
  }
}

TEST(T5PipelinesOfChunks, AreRefused) {
  GridShape shape = grid_of(2);
  shape.chunks = 2;
  EXPECT_THROW(run_on({.golden = "t5", .micro_batches = 2}, shape), UserError);
}

}  // namespace
}  // namespace ft::test
