// Ranks with sharded experts, tested from outside: the same training as of ranks with all experts.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "engine/files/safetensors/safetensors.h"
#include "tests/life/ranks/ranks.h"

namespace ft::test {
namespace {

using Words = std::vector<std::string>;

Words with(Words all, const Words& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}
Words dealt(int size) { return {"distributed.expert_parallel_size=" + std::to_string(size)}; }
const Words kSteps = {"training.max_steps=8", "training.weight_decay=0.1", "training.max_grad_norm=0.5"};

const Json kAllWeights = {{"finetuning_type", "full"}};
const Json kAllLinear = {{"lora", {{"r", 4}, {"lora_alpha", 16}, {"target_modules", "all-linear"}}}};
const Json kFourBits = {{"lora", {{"r", 4}, {"lora_alpha", 16}, {"target_modules", "all-linear"}}},
                        {"quantization", {{"load_in_4bit", true}}}};

std::map<std::string, std::vector<float>> all_weights(const fs::path& path) {
  const SafetensorsFile file(path.string());
  std::map<std::string, std::vector<float>> all;
  for (const StoredTensor& t : file.tensors()) {
    std::vector<float>& values = all[std::string(t.name)];
    values.resize(static_cast<std::size_t>(t.numel));
    file.read(t, Tensor(reinterpret_cast<std::byte*>(values.data()), DType::f32, {t.numel}));
  }
  return all;
}

struct Trained {
  std::vector<double> losses;
  std::map<std::string, std::vector<float>> weights;
};

Trained train_on(const std::string& golden, const Json& config, int ranks, int stage, int accumulation,
                 const Words& more) {
  const Workplace w(golden, config);
  EXPECT_EQ(w.run(command(ranks, stage, accumulation, with(more, kSteps))), 0) << w.says();
  return {losses(w / "out"), all_weights(w / file_of(config))};
}

void expect_same(const Trained& got, const Trained& want, std::size_t from = 0) {
  ASSERT_EQ(got.losses.size() + from, want.losses.size());
  for (std::size_t i = 0; i < got.losses.size(); ++i)
    EXPECT_NEAR(got.losses[i], want.losses[i + from], 2e-6 * want.losses[i + from]) << "step " << i + from;
  ASSERT_EQ(got.weights.size(), want.weights.size());
  for (const auto& [name, values] : want.weights) {
    ASSERT_TRUE(got.weights.contains(name)) << name;
    const std::vector<float>& other = got.weights.at(name);
    double top = 0, bottom = 0;
    ASSERT_EQ(other.size(), values.size()) << name;
    for (std::size_t i = 0; i < values.size(); ++i) {
      top += std::pow(double{other[i]} - values[i], 2);
      bottom += std::pow(double{values[i]}, 2);
    }
    EXPECT_LE(top, 1e-8 * bottom) << name;
  }
}

class ExpertRanks : public testing::TestWithParam<Json> {};
INSTANTIATE_TEST_SUITE_P(All, ExpertRanks, testing::Values(kAllWeights, kAllLinear, kFourBits));

TEST_P(ExpertRanks, AreOne) {
  const Trained one = train_on("mixtral", GetParam(), 1, 0, 4, {});
  for (int stage = 0; stage < 4; ++stage) {
    expect_same(train_on("mixtral", GetParam(), 2, stage, 2, dealt(2)), one);
    expect_same(train_on("mixtral", GetParam(), 4, stage, 1, dealt(2)), one);
  }
  expect_same(
      train_on("mixtral", GetParam(), 2, 1, 2, with(dealt(2), {"training.gradient_checkpointing=true"})),
      one);
}

// Micro-batches of equal shape, so that all ranks have their peak memory at the same time.
TEST_P(ExpertRanks, TakeThePlannedMemory) {
  for (const int stage : {0, 3}) {
    const Workplace w("mixtral", GetParam());
    std::ofstream out(w / "train.jsonl");
    for (int i = 0; i < 24; ++i) {
      std::vector<int> ids;
      for (int t = 0; t < 16; ++t) ids.push_back(3 + (i * 7 + t * t) % 40);
      out << Json{{"input_ids", ids}, {"labels", ids}}.dump() << "\n";
    }
    out.close();
    const Words all =
        with(dealt(2), {"training.per_device_train_batch_size=1", "training.gradient_checkpointing=false"});
    ASSERT_EQ(w.run(command(2, stage, 1, all)), 0) << w.says();
    const Json measured = rows(w / "out/log.jsonl").back().at("memory");
    const Words plan = with(
        {"plan", "--config", "run.json", "--json", "distributed.nproc_per_node=2",
         "zero_stage=" + std::to_string(stage), "zero_optimization.stage3_param_persistence_threshold=0"},
        all);
    ASSERT_EQ(w.run(plan), 0) << w.says();
    const Json planned = Json::parse(contents(w / "stdout"));
    expect_planned(planned, measured);
  }
}

// Checkpoints of ranks with sharded experts are continued by one rank with all experts, and the other way
// round.
TEST_P(ExpertRanks, SaveCheckpointsThatOtherRanksLoad) {
  const Words saving = {"checkpointing.save_strategy=steps", "checkpointing.save_steps=4"};
  const Trained one = train_on("mixtral", GetParam(), 1, 0, 4, {});
  for (const bool dealt_first : {false, true}) {
    const Workplace w("mixtral", GetParam());
    const auto go = [&](bool deal, const Words& more) {
      const Words all = with(with(with(saving, kSteps), more), deal ? dealt(2) : Words{});
      return w.run(command(deal ? 2 : 1, deal ? 2 : 0, deal ? 2 : 4, all));
    };
    ASSERT_EQ(go(dealt_first, {}), 0) << w.says();
    ASSERT_EQ(
        go(!dealt_first, {"training.resume_from_checkpoint=out/checkpoint-4", "training.output_dir=out2"}), 0)
        << w.says();
    const std::string file = file_of(GetParam());
    expect_same({losses(w / "out2"), all_weights(w / ("out2" + file.substr(3)))}, one, 4);
  }
}

// With the same number of ranks, a resumed run gives the same bits.
TEST(ExpertRanks, ResumeBitForBit) {
  const Words saving = with(kSteps, {"checkpointing.save_strategy=steps", "checkpointing.save_steps=4"});
  const Workplace w("qwen3-moe", kAllWeights);
  const auto go = [&](const Words& more) {
    return w.run(command(2, 2, 2, with(with(saving, dealt(2)), more)));
  };
  ASSERT_EQ(go({}), 0) << w.says();
  ASSERT_EQ(go({"training.resume_from_checkpoint=out/checkpoint-4", "training.output_dir=out2"}), 0)
      << w.says();
  EXPECT_TRUE(contents(w / "out/model.safetensors") == contents(w / "out2/model.safetensors"));
}

// Ranks that share sequences send only their own rows.
TEST(ExpertRanks, ShareSequencesToo) {
  const Trained one = train_on("mixtral", kAllWeights, 1, 0, 2, {});
  expect_same(
      train_on("mixtral", kAllWeights, 6, 2, 1, with(dealt(2), {"distributed.sequence_parallel_size=3"})),
      one);
}

TEST(ExpertRanks, EvaluateAndAnswerTogether) {
  const auto evaluated = [](int ranks, const Words& more) {
    const Workplace w("mixtral", kAllWeights);
    Words words = {"eval", "--config", "run.json", "--json",
                   "data.eval_datasets=[{\"path\":\"train.jsonl\"}]"};
    if (ranks > 1) words.insert(words.begin(), {"launch", "-n", std::to_string(ranks)});
    EXPECT_EQ(w.run(with(words, more)), 0) << w.says();
    return Json::parse(contents(w / "stdout")).at("eval_loss").get<double>();
  };
  const double one = evaluated(1, {});
  EXPECT_NEAR(evaluated(2, dealt(2)), one, 2e-6 * one);

  const auto answered = [](int ranks, const Words& more) {
    const Workplace w("mixtral");
    std::ofstream(w / "in.jsonl") << R"({"input_ids": [1, 4, 14]})"
                                  << "\n"
                                  << R"({"input_ids": [1, 20]})"
                                  << "\n"
                                  << R"({"input_ids": [1, 7, 9, 31, 2]})"
                                  << "\n";
    Words words = {"generate", "--model",  "model",     "--input",
                   "in.jsonl", "--output", "out.jsonl", "generation.max_new_tokens=8"};
    if (ranks > 1) words.insert(words.begin(), {"launch", "-n", std::to_string(ranks)});
    EXPECT_EQ(w.run(with(words, more)), 0) << w.says();
    return contents(w / "out.jsonl");
  };
  EXPECT_EQ(answered(2, dealt(2)), answered(1, {}));
}

TEST(ExpertRanks, AKilledOneIsNamed) {
  const Workplace w("mixtral", kAllWeights);
  const pid_t launcher = w.start(command(
      2, 0, 1, with(dealt(2), {"training.num_train_epochs=100000", "checkpointing.save_total_limit=2"})));
  ASSERT_TRUE(w.wait_for_rows(3)) << w.says();
  const std::vector<pid_t> ranks = children(launcher);
  ASSERT_EQ(ranks.size(), 2u);
  kill(ranks[1], SIGKILL);
  EXPECT_EQ(w.finish(launcher), 128 + SIGKILL);
  EXPECT_NE(w.says().find("[0] rank 1 on "), std::string::npos) << w.says();
}

TEST(ExpertRanks, RefuseUnsupportedSettings) {
  const auto said = [](const std::string& golden, int ranks, const Words& more) {
    const Workplace w(golden, kAllWeights);
    EXPECT_EQ(w.run(command(ranks, 1, 1, more)), 2) << w.says();
    return w.says();
  };
  const auto expect = [&](const std::string& text, const char* words) {
    EXPECT_NE(text.find(words), std::string::npos) << text;
  };
  expect(said("llama", 2, dealt(2)), "distributed.expert_parallel_size: model has no experts");
  expect(said("mixtral", 2, dealt(3)),
         "distributed.expert_parallel_size is 3, and 2 ranks are data-parallel");
  expect(said("mixtral", 3, dealt(3)),
         "3 ranks cannot have equal numbers of the 4 experts; sizes that would do: 1, 2, 4");
  expect(said("mixtral", 2, with(dealt(2), {"training.optim=adafactor"})), "training.optim: keeps a state");
  expect(said("mixtral", 2, with(dealt(2), {"zero_optimization.mics_shard_size=1"})),
         "zero_optimization.mics_shard_size: ranks form no groups with distributed.expert_parallel_size");
  expect(said("mixtral", 2,
              with(dealt(2), {"zero_optimization.offload_optimizer.device=nvme",
                              "zero_optimization.offload_optimizer.nvme_path=."})),
         "zero_optimization.offload_optimizer.device: nothing lives elsewhere");
}

}  // namespace
}  // namespace ft::test
