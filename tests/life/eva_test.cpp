// Adapters initialized from data (lora.init_lora_weights=eva): as in PEFT, with any number of ranks in any
// stage; a resumed run is the same run; impossible settings are refused by name.
#include <gtest/gtest.h>

#include <map>

#include "engine/files/safetensors/safetensors.h"
#include "tests/life/program.h"
#include "tests/life/ranks/ranks.h"

namespace ft::test {
namespace {

fs::path golden(const std::string& name) { return fs::path(source_path("tests/golden/eva")) / name; }

Json config_of(const std::string& name) {
  return {{"lora", Json::parse(contents(golden(name) / "lora.json"))}, {"data", {{"shuffle", false}}}};
}

// Trains one step at a rate so small that A keeps its initial values.
const std::vector<std::string> kOnlyBegins = {"training.max_steps=1", "training.learning_rate=1e-30"};

std::map<std::string, std::vector<float>> down_matrices(const fs::path& folder) {
  const SafetensorsFile file((folder / "adapter_model.safetensors").string());
  std::map<std::string, std::vector<float>> all;
  for (const StoredTensor& t : file.tensors()) {
    if (!t.name.ends_with(".lora_A.weight")) continue;
    std::vector<float>& a = all[t.name];
    a.resize(static_cast<std::size_t>(t.shape[0] * t.shape[1]));
    file.read(t, {reinterpret_cast<std::byte*>(a.data()), DType::f32, {t.shape[0], t.shape[1]}});
  }
  return all;
}

class Eva : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, Eva,
                         testing::Values("default", "no-mask", "label", "same-ranks", "patterns", "whiten",
                                         "dropped"),
                         [](const auto& name) {
                           std::string word = name.param;
                           std::erase(word, '-');
                           return word;
                         });

TEST_P(Eva, BeginsAsPeft) {
  const Workplace w("llama-gqa", config_of(GetParam()));
  ASSERT_EQ(w.train(kOnlyBegins), 0) << w.says();
  const Json own = Json::parse(contents(w / "out/adapter_config.json")),
             peft = Json::parse(contents(golden(GetParam()) / "adapter_config.json"));
  for (const char* key : {"rank_pattern", "alpha_pattern", "eva_config", "init_lora_weights", "r"})
    EXPECT_EQ(own[key], peft[key]) << key;
  const auto got = down_matrices(w / "out"), wanted = down_matrices(golden(GetParam()));
  ASSERT_EQ(got.size(), wanted.size());
  for (const auto& [name, a] : wanted) {
    ASSERT_TRUE(got.contains(name)) << name;
    ASSERT_EQ(got.at(name).size(), a.size()) << name;
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(got.at(name)[i], a[i], 1e-4) << name << ' ' << i;
  }
}

TEST(EvaRanks, BeginLikeOne) {
  const Workplace one("llama-gqa", config_of("default"));
  ASSERT_EQ(one.train(kOnlyBegins), 0) << one.says();
  const auto wanted = down_matrices(one / "out");
  const Workplace padded("llama-gqa", config_of("default"));
  ASSERT_EQ(
      padded.train({"training.max_steps=1", "training.learning_rate=1e-30", "data.pad_to_max_length=true"}),
      0)
      << padded.says();
  EXPECT_TRUE(down_matrices(padded / "out") == wanted);
  for (const auto& [ranks, stage] : {std::pair{2, 0}, {2, 3}, {3, 2}}) {
    const Workplace w("llama-gqa", config_of("default"));
    ASSERT_EQ(w.run(command(ranks, stage, 1, kOnlyBegins)), 0) << w.says();
    EXPECT_TRUE(down_matrices(w / "out") == wanted) << ranks << " ranks, stage " << stage;
    EXPECT_EQ(Json::parse(contents(w / "out/adapter_config.json"))["rank_pattern"],
              Json::parse(contents(one / "out/adapter_config.json"))["rank_pattern"]);
  }
}

TEST(EvaResumed, IsTheSameRun) {
  const Workplace w("llama-gqa", config_of("dropped"));
  ASSERT_EQ(w.train({"checkpointing.save_strategy=steps", "checkpointing.save_steps=5"}), 0) << w.says();
  const std::string whole = contents(w / "out/adapter_model.safetensors"),
                    config = contents(w / "out/adapter_config.json");
  ASSERT_EQ(w.train({"training.resume_from_checkpoint=out/checkpoint-5"}), 0) << w.says();
  EXPECT_TRUE(contents(w / "out/adapter_model.safetensors") == whole);
  EXPECT_EQ(contents(w / "out/adapter_config.json"), config);
  EXPECT_EQ(w.train({"training.resume_from_checkpoint=out/checkpoint-5", "lora.r=2"}), 4) << w.says();
}

TEST(EvaRefused, NamesTheSetting) {
  const auto refused = [](const std::string& model, const std::vector<std::string>& settings,
                          const std::string& says) {
    const Workplace w(model, {{"lora", {{"r", 4}, {"init_lora_weights", "eva"}}}});
    EXPECT_EQ(w.train(settings), 2) << says;
    EXPECT_NE(w.says().find(says), std::string::npos) << w.says();
  };
  refused("llama-gqa", {"lora.init_lora_weights=true", "lora.eva_config.rho=3"}, "lora.eva_config: has no");
  refused("llama-gqa", {"data.streaming=true", "training.max_steps=3"}, "data.streaming=false");
  refused("llama-gqa", {"objective.type=dpo"}, "objective.type is dpo");
  refused("llama-gqa", {"distributed.tensor_parallel_size=2"}, "distributed.tensor_parallel_size");
  refused("llama-gqa", {"lora.target_modules=[\"lm_head\"]"}, "not for the head");
  refused("llama-gqa", {"lora.eva_config.rho=7"}, "lora.eva_config.rho: 28 components");
  refused("llama-gqa",
          {"lora.eva_config.tau=0.9999999999999999", "lora.r=1", "lora.target_modules=[\"o_proj\"]"},
          "lora.eva_config.tau: after");
  refused("llama-gqa", {"training.per_device_train_batch_size=1", "lora.r=10"}, "micro-batch with 20");
  refused("t5", {"lora.target_modules=[\"q\"]"}, "not for encoder-decoders");
  refused("mixtral", {"lora.target_modules=all-linear"}, "init_lora_weights");
}

}  // namespace
}  // namespace ft::test
