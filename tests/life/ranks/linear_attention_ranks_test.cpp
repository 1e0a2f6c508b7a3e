// Models with gated delta nets on several ranks, tested from outside: one rank's training where ranks share
// each layer, with its experts, or the rows of sequences; within the planned memory, resumed on another grid.
#include <gtest/gtest.h>

#include "tests/life/trained.h"

namespace ft::test {
namespace {

const Json kDense = {{"model_type", "qwen3_5_text"}};
const Json kMixture = {{"model_type", "qwen3_next"},
                       {"num_experts", 4},
                       {"num_experts_per_tok", 2},
                       {"moe_intermediate_size", 8},
                       {"shared_expert_intermediate_size", 12},
                       {"decoder_sparse_step", 1}};
const Json kAdapters = {{"lora", {{"r", 4}, {"lora_alpha", 16}, {"target_modules", "all-linear"}}}};

const Words kTensor = {"distributed.tensor_parallel_size=2"},
            kShards = {"distributed.tensor_parallel_size=2", "distributed.partition_activations=true"},
            kSequence = {"distributed.sequence_parallel_size=2"},
            kRing = {"distributed.sequence_parallel_size=2", "distributed.sequence_parallel_type=ring"};
const Words kSteps = {"training.max_steps=6", "training.weight_decay=0.1", "training.max_grad_norm=0.5"};

Json of_small(Json config) {
  config["model"]["model_name_or_path"] = "small";
  return config;
}

// A folder with a small model whose heads two ranks can share.
struct Small : Workplace {
  Small(const Json& family, const Json& config) : Workplace("llama", of_small(config)) {
    Json model = {{"vocab_size", 59},
                  {"hidden_size", 24},
                  {"intermediate_size", 32},
                  {"num_hidden_layers", 2},
                  {"num_attention_heads", 4},
                  {"num_key_value_heads", 2},
                  {"head_dim", 8},
                  {"linear_num_key_heads", 2},
                  {"linear_num_value_heads", 4},
                  {"linear_key_head_dim", 6},
                  {"linear_value_head_dim", 8},
                  {"layer_types", {"linear_attention", "full_attention"}},
                  {"rope_parameters", {{"rope_theta", 1e4}, {"partial_rotary_factor", 0.5}}},
                  {"rms_norm_eps", 1e-3},
                  {"initializer_range", 0.1},
                  {"max_position_embeddings", 64},
                  {"pad_token_id", 0},
                  {"eos_token_id", 1},
                  {"tie_word_embeddings", false}};
    model.update(family);
    std::ofstream(*this / "config.json") << model.dump();
    EXPECT_EQ(run({"init", "--config", "config.json", "--output", "small"}), 0) << says();
  }
};

struct Method {
  const char* name;
  Json family, config;
};
void PrintTo(const Method& m, std::ostream* out) { *out << m.name; }

class LinearAttentionRanks : public testing::TestWithParam<Method> {
 protected:
  Trained train(int ranks, int stage, int accumulation, const Words& more) const {
    const Small w(GetParam().family, GetParam().config);
    EXPECT_EQ(w.run(command(ranks, stage, accumulation, with(more, kSteps))), 0) << w.says();
    return {losses(w / "out"), all_weights(w / file_of(GetParam().config))};
  }
};
INSTANTIATE_TEST_SUITE_P(All, LinearAttentionRanks,
                         testing::Values(Method{"Dense", kDense, kFull},
                                         Method{"DenseAdapters", kDense, kAdapters},
                                         Method{"Mixture", kMixture, kFull},
                                         Method{"MixtureAdapters", kMixture, kAdapters}),
                         [](const auto& test) { return test.param.name; });

// Two ranks share layers or rows, and there are two such pairs. All stages give the same bits, and so does
// recomputation.
TEST_P(LinearAttentionRanks, AreOne) {
  const Trained one = train(1, 0, 2, {});
  for (const Words& how : {kTensor, kShards, kSequence, kRing}) {
    SCOPED_TRACE(how.back());
    const Trained first = train(4, 0, 1, how);
    expect_same(first, one);
    const bool every = how.size() == 1;
    for (const int stage : every ? std::vector{1, 2, 3} : std::vector{3}) {
      const Words again = stage == 3 ? Words{"training.gradient_checkpointing=true"} : Words{};
      const Trained other = train(4, stage, 1, with(how, again));
      EXPECT_EQ(other.losses, first.losses);
      EXPECT_EQ(other.weights, first.weights);
    }
  }
}

TEST_P(LinearAttentionRanks, TakeThePlannedMemory) {
  for (const Words& how : {kTensor, kShards, kSequence, kRing}) {
    SCOPED_TRACE(how.back());
    const Small w(GetParam().family, GetParam().config);
    ASSERT_EQ(w.run(command(2, 0, 1, with(how, kSteps))), 0) << w.says();
    const Json measured = rows(w / "out/log.jsonl").back().at("memory");
    const Words plan = {"plan",
                        "--config",
                        "run.json",
                        "--json",
                        "distributed.nproc_per_node=2",
                        "zero_optimization.stage3_param_persistence_threshold=0"};
    ASSERT_EQ(w.run(with(plan, with(how, kSteps))), 0) << w.says();
    expect_planned(Json::parse(contents(w / "stdout")), measured);
  }
}

// Packed samples do not see each other, wherever the ranks' rows begin.
TEST_P(LinearAttentionRanks, KeepPackedSamplesApart) {
  const Words packed = {"data.packing=true"};
  const Trained one = train(1, 0, 1, packed);
  for (const Words& how : {kTensor, kSequence, kRing}) expect_same(train(2, 0, 1, with(how, packed)), one);
}

// Checkpoints of ranks that share layers are continued by ranks that share rows, and the other way round.
TEST_P(LinearAttentionRanks, SaveCheckpointsThatOtherRanksLoad) {
  const Words saving = with(kSteps, {"checkpointing.save_strategy=steps", "checkpointing.save_steps=3"});
  const Trained one = train(1, 0, 1, {});
  for (const bool layers_first : {true, false}) {
    const Small w(GetParam().family, GetParam().config);
    const auto go = [&](bool layers, const Words& more) {
      return w.run(command(2, layers ? 1 : 3, 1, with(with(saving, more), layers ? kTensor : kSequence)));
    };
    expect_continued(w, GetParam().config, layers_first, 3, one, go);
  }
}

TEST(LinearAttentionRanks, HaveCompleteExpertsOrParts) {
  const Small w(kMixture, kFull);
  EXPECT_EQ(w.run(command(4, 0, 1, with(kTensor, {"distributed.expert_parallel_size=2"}))), 2);
  EXPECT_NE(w.says().find("parts of all of them; leave one of the two out"), std::string::npos) << w.says();
}

}  // namespace
}  // namespace ft::test
