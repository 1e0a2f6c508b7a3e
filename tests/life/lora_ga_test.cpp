// Adapters that begin with the gradients of their weights (lora.init_lora_weights=lora_ga): as in PEFT, with
// any number of ranks in any stage; the first loss is the base's; checkpoints hold the beginning; impossible
// settings are refused by name.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "engine/files/safetensors/safetensors.h"
#include "tests/life/program.h"
#include "tests/life/ranks/ranks.h"

namespace ft::test {
namespace {

fs::path golden(const std::string& name) {
  return fs::path(source_path("tests/golden/lora_ga")) / name / "first.safetensors";
}
std::string model_of(const std::string& name) { return name == "inputs-first" ? "gpt2" : "llama-gqa"; }
Json config_of(const std::string& name) {
  return {{"lora", Json::parse(contents(golden(name).parent_path() / "lora.json"))},
          {"data", {{"shuffle", false}}}};
}

// Trains one step at a rate so small that A and B keep their initial values.
const std::vector<std::string> kOnlyBegins = {"training.max_steps=1", "training.learning_rate=1e-30"};

struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<float> values;
  float at(std::int64_t r, std::int64_t c) const { return values[static_cast<std::size_t>(r * columns + c)]; }
};

std::map<std::string, Matrix> matrices(const fs::path& path) {
  const SafetensorsFile file(path.string());
  std::map<std::string, Matrix> all;
  for (const StoredTensor& t : file.tensors()) {
    Matrix& m = all[t.name] = {t.shape[0], t.shape[1], std::vector<float>(static_cast<std::size_t>(t.numel))};
    file.read(t, {reinterpret_cast<std::byte*>(m.values.data()), DType::f32, {m.rows, m.columns}});
  }
  return all;
}

// Returns the tensors of a merged model.
std::map<std::string, std::vector<float>> tensors_of(const fs::path& folder) {
  const SafetensorsFile file((folder / "model.safetensors").string());
  std::map<std::string, std::vector<float>> all;
  for (const StoredTensor& t : file.tensors()) {
    std::vector<float>& values = all[t.name];
    values.resize(static_cast<std::size_t>(t.numel));
    file.read(t, {reinterpret_cast<std::byte*>(values.data()), DType::f32, {t.numel}});
  }
  return all;
}

class LoraGa : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, LoraGa,
                         testing::Values("default", "weight-svd", "gd-scale", "unit", "inputs-first"),
                         [](const auto& name) {
                           std::string word = name.param;
                           std::erase(word, '-');
                           return word;
                         });

// The result is a plain adapter of twice the rank: B A - B0 A0, which is zero after a step of nothing. Each
// of its first r vectors is PEFT's, in one of both directions.
TEST_P(LoraGa, BeginsAsPeft) {
  const Workplace w(model_of(GetParam()), config_of(GetParam()));
  ASSERT_EQ(w.train(kOnlyBegins), 0) << w.says();
  EXPECT_EQ(Json::parse(contents(w / "out/adapter_config.json"))["init_lora_weights"], true);
  const auto got = matrices(w / "out/adapter_model.safetensors"), wanted = matrices(golden(GetParam()));
  ASSERT_EQ(got.size(), wanted.size());
  for (const auto& [name, want] : wanted) {
    ASSERT_TRUE(got.contains(name)) << name;
    const Matrix& own = got.at(name);
    const bool down = name.ends_with(".lora_A.weight");
    const std::int64_t r = down ? want.rows : want.columns, n = down ? want.columns : want.rows;
    ASSERT_EQ(down ? own.rows : own.columns, 2 * r) << name;
    const auto element = [&](const Matrix& m, std::int64_t k, std::int64_t i) {
      return down ? m.at(k, i) : m.at(i, k);
    };
    for (std::int64_t k = 0; k < r; ++k) {
      double along = 0, of_own = 0, of_want = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        along += element(own, k, i) * element(want, k, i);
        of_own += std::pow(element(own, k, i), 2);
        of_want += std::pow(element(want, k, i), 2);
        EXPECT_EQ(element(own, r + k, i), down ? element(own, k, i) : -element(own, k, i));
      }
      EXPECT_NEAR(std::sqrt(of_own / of_want), 1, 1e-3) << name << ' ' << k;
      EXPECT_GT(std::abs(along) / std::sqrt(of_own * of_want), 0.999) << name << ' ' << k;
    }
  }
}

TEST(LoraGaRanks, BeginLikeOne) {
  const Workplace one("llama-gqa", config_of("default"));
  ASSERT_EQ(one.train(kOnlyBegins), 0) << one.says();
  const std::string wanted = contents(one / "out/adapter_model.safetensors");
  for (const auto& [ranks, stage] : {std::pair{2, 0}, {2, 3}, {3, 2}}) {
    const Workplace w("llama-gqa", config_of("default"));
    ASSERT_EQ(w.run(command(ranks, stage, 1, kOnlyBegins)), 0) << w.says();
    EXPECT_TRUE(contents(w / "out/adapter_model.safetensors") == wanted)
        << ranks << " ranks, stage " << stage;
  }
}

// The base loses s B A of the start: an adapter that adds nothing has the same first loss.
TEST(LoraGaStart, ChangesNoLoss) {
  const auto first_loss = [](const Json& lora) {
    const Workplace w("llama-gqa", {{"lora", lora}, {"data", {{"shuffle", false}}}});
    EXPECT_EQ(w.train({"training.max_steps=1"}), 0) << w.says();
    return losses(w / "out").front();
  };
  EXPECT_NEAR(first_loss({{"r", 4}, {"init_lora_weights", "lora_ga"}}), first_loss({{"r", 4}}), 1e-5);
}

// A checkpoint is merged with its first A and B, and refused without them.
TEST(LoraGaCheckpoint, HoldsItsBeginning) {
  const Workplace w("llama-gqa", config_of("default"));
  ASSERT_EQ(
      w.train({"checkpointing.save_strategy=steps", "checkpointing.save_steps=5", "training.max_steps=5"}), 0)
      << w.says();
  const auto merge = [&](const std::string& adapter) {
    return w.run({"merge", "--model", "model", "--adapter", adapter, "--output",
                  "merged-" + adapter.substr(0, 3), "--dtype", "float32"});
  };
  ASSERT_EQ(merge("out"), 0) << w.says();
  fs::copy(w / "out/checkpoint-5", w / "checkpoint");
  ASSERT_EQ(merge("checkpoint"), 0) << w.says();
  const auto result = tensors_of(w / "merged-out"), point = tensors_of(w / "merged-che");
  for (const auto& [name, want] : result)
    for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(point.at(name)[i], want[i], 1e-5) << name;
  EXPECT_EQ(w.run({"export", "--to", "peft", "--from", "checkpoint", "--output", "peft"}), 3);
  EXPECT_NE(w.says().find("export the result of the run"), std::string::npos) << w.says();
  fs::remove(w / "checkpoint/first_factors.safetensors");
  EXPECT_EQ(w.run({"merge", "--model", "model", "--adapter", "checkpoint", "--output", "other"}), 3);
  EXPECT_NE(w.says().find("first_factors.safetensors with the first A and B is missing"), std::string::npos)
      << w.says();
}

TEST(LoraGaRefused, NamesTheSetting) {
  const auto refused = [](const std::string& model, const std::vector<std::string>& settings,
                          const std::string& says) {
    const Workplace w(model, {{"lora", {{"r", 4}, {"init_lora_weights", "lora_ga"}}}});
    EXPECT_EQ(w.train(settings), 2) << says;
    EXPECT_NE(w.says().find(says), std::string::npos) << w.says();
  };
  refused("llama-gqa", {"lora.init_lora_weights=true", "lora.lora_ga_config.batches=3"},
          "lora.lora_ga_config: has no");
  refused("llama-gqa", {"data.streaming=true", "training.max_steps=3"}, "data.streaming=false");
  refused("llama-gqa", {"objective.type=dpo"}, "objective.type is dpo");
  refused("llama-gqa", {"quantization.load_in_4bit=true"}, "quantization.load_in_4bit=false");
  refused("llama-gqa", {"model.frozen_dtype=fp8"}, "model.frozen_dtype");
  refused("llama-gqa", {"training.fp16=true"}, "training.bf16=true");
  refused("llama-gqa", {"distributed.tensor_parallel_size=2"}, "distributed.tensor_parallel_size");
  refused("llama-gqa", {"lora.target_modules=[\"lm_head\"]"}, "lora_ga is not for the head");
  refused("llama-gqa", {"lora.r=7"}, "lora_ga takes 2 r");
  refused("t5", {"lora.target_modules=[\"q\"]"}, "lora_ga is not for encoder-decoders");
}

}  // namespace
}  // namespace ft::test
