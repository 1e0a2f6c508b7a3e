// Pipelines compute bit for bit what ranks with all blocks compute: loss, gradients, evaluation, of every
// family, full and with adapters, on grids with other axes, within the planned memory. Only sums over two
// stages are rounded in another way: a tied table's gradient, and the norm.
#include "tests/models/pipeline_run.h"

namespace ft::test {
namespace {

std::vector<std::string> models() {
  std::vector<std::string> names = golden_names();
  std::erase_if(names, [](const std::string& n) {
    return n.starts_with("lora") || n.ends_with("-v4") || n == "gemma4-e";
  });
  return names;
}

class PipelineParallel : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Models, PipelineParallel, testing::ValuesIn(models()), [](const auto& test) {
  std::string name = test.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST_P(PipelineParallel, TwoStagesAreOne) {
  for (const Method method : {Method::full, Method::lora}) {
    Case s{.golden = GetParam(), .method = method};
    const Ran one = run_on(s, grid_of(1));
    expect_same(run_on(s, grid_of(2)), one);
    s.recompute = kAllBlocks;
    expect_same(run_on(s, grid_of(2)), one);
  }
}

// Layers of a small Gemma 4 need keys and values of earlier layers, and inputs that only the first stage
// makes.
TEST(Pipelines, AreRefusedForLayersThatShareKeys) {
  try {
    run_on({.golden = "gemma4-e"}, grid_of(2));
    ADD_FAILURE() << "accepted";
  } catch (const UserError& e) {
    EXPECT_EQ(
        std::string(e.what()),
        "distributed.pipeline_parallel_size is 2: layers of this model share keys or have inputs of their "
        "own, which ft does not send to other stages yet; leave it out");
  }
}

const Json kFive = {{"num_hidden_layers", 5}, {"num_attention_heads", 4}, {"num_key_value_heads", 2}};
Json five(bool tied) {
  Json c = kFive;
  c["tie_word_embeddings"] = tied;
  return c;
}

// More micro-batches than stages, as many, fewer, one.
TEST(Pipelines, OfAnyLengthHaveOneRanksBits) {
  for (const bool tied : {false, true})
    for (const int micro_batches : {7, 3, 2, 1}) {
      Case s{.change = five(tied), .micro_batches = micro_batches};
      const Ran one = run_on(s, grid_of(1));
      for (const int stages : {2, 3, 5})
        for (const std::int64_t recompute : {0, 1, 2, 9}) {
          SCOPED_TRACE(str(stages, " stages, ", micro_batches, " micro-batches, ", recompute, " again"));
          s.recompute = recompute;
          expect_same(run_on(s, grid_of(stages)), one);
        }
    }
}

TEST(Pipelines, HaveTheBitsOfTheGridWithoutThem) { expect_bits_beside_other_axes({.change = five(true)}, 2); }

TEST(Pipelines, ComputeIn16BitsAndWith4BitWeights) {
  expect_bits_of_low_precision({.change = five(true)},
                               {{"hidden_size", 64}, {"head_dim", 16}, {"intermediate_size", 128}});
}

// Returns the bytes of all micro-batches' states between two stages, in f32.
std::int64_t bytes_of_states(const Case& s) {
  const GoldenCase golden(s.golden);
  std::int64_t rows = 0, taken = 0;
  for (const auto& samples : golden.batches)
    for (const Batch& b : samples)
      if (taken++ < s.micro_batches) rows += b.tokens();
  EXPECT_GE(taken, s.micro_batches);
  const std::int64_t C = read_json(golden.model_folder() + "/config.json")["hidden_size"];
  return rows * C * 4;
}

// States of every micro-batch are sent to the next stage; gradients are sent back only if an earlier stage
// trains a block.
TEST(Pipelines, SendTheBytesOfTheFormula) {
  Case s{.method = Method::lora, .change = five(false), .micro_batches = 4};
  const std::int64_t states = bytes_of_states(s);
  EXPECT_EQ(run_on(s, grid_of(2)).sent, states);
  s.adapted = {4};  // in the second stage: no gradient is sent back, and the first stage has no backward pass
  expect_same(run_on(s, grid_of(2)), run_on(s, grid_of(1)));
}

Json layers(int n) {
  Json c = five(true);
  c["num_hidden_layers"] = n;
  return c;
}

// Rank s has the stages s, P + s and so on.
TEST(InterleavedPipelines, HaveOneRanksBits) {
  for (const auto& [stages, chunks, blocks] : {std::tuple{2, 2, 5}, std::tuple{3, 2, 6}, std::tuple{2, 4, 9}})
    for (const int rounds : {1, 3}) {
      Case s{.change = layers(blocks), .micro_batches = rounds * stages};
      for (const Method method : {Method::full, Method::lora}) {
        s.method = method;
        s.recompute = 0;
        const Ran one = run_on(s, grid_of(1));
        for (const std::int64_t recompute : {0, 1, 2, 99}) {
          SCOPED_TRACE(
              str(stages, " stages, ", chunks, " chunks, ", rounds, " rounds, ", recompute, " again"));
          s.recompute = recompute;
          expect_same(run_on(s, interleaved(chunks, grid_of(stages))), one);
        }
      }
    }
}

TEST(InterleavedPipelines, HaveTheBitsOfTheGridWithoutThem) {
  for (const auto& [data, sequence, tensor] :
       {std::tuple{2, 1, 1}, std::tuple{1, 2, 1}, std::tuple{1, 1, 2}, std::tuple{2, 1, 2}})
    for (const int stage : {0, 1}) {
      SCOPED_TRACE(str(data, " x ", sequence, " x ", tensor, ", stage ", stage));
      const Case s{.change = five(true), .stage = stage, .micro_batches = 4};
      expect_same(run_on(s, interleaved(2, grid_of(2, data, sequence, tensor))),
                  run_on(s, grid_of(1, data, sequence, tensor)));
    }
}

TEST(InterleavedPipelines, ComputeIn16BitsAndWith4BitWeights) {
  Case s{.change = five(true), .dtype = DType::bf16, .micro_batches = 4};
  expect_same(run_on(s, interleaved(2, grid_of(2))), run_on(s, grid_of(1)));
  s.method = Method::qlora;
  s.change.update({{"hidden_size", 64}, {"head_dim", 16}, {"intermediate_size", 128}});
  expect_same(run_on(s, interleaved(2, grid_of(2))), run_on(s, grid_of(1)));
}

// If no earlier chunk trains a block, no gradient is sent back, also not from rank 0 to the last rank.
TEST(InterleavedPipelines, SendTheBytesOfTheFormula) {
  Case s{.method = Method::lora, .change = five(false), .micro_batches = 4};
  const std::int64_t states = bytes_of_states(s);
  // Rank 0 sends states from both of its chunks, and gradients from its second.
  EXPECT_EQ(run_on(s, interleaved(2, grid_of(2))).sent, 3 * states);
  s.adapted = {3};
  const Ran got = run_on(s, interleaved(2, grid_of(2)));
  EXPECT_EQ(got.sent, 2 * states);
  expect_same(got, run_on(s, grid_of(1)));
}

}  // namespace
}  // namespace ft::test
