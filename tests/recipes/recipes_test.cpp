// The recipes of configs/models. Each is planned with the shapes of its model, without weights, tokenizer or
// data, and trains a small model of the family for a step.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "app/config/config.h"
#include "app/plan/gpu_sizes.h"
#include "engine/files/file.h"
#include "tests/app/outcome.h"
#include "tests/engine/files/temp_folder.h"
#include "tests/recipes/shapes.h"
#include "tests/support/source.h"

namespace ft {
namespace {

using Words = std::vector<std::string>;

// Returns the recipes as FAMILY/METHOD.
Words recipes() {
  const std::filesystem::path root = source_path("configs/models");
  Words all;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root))
    if (entry.path().extension() == ".json")
      all.push_back(entry.path().lexically_relative(root).replace_extension().string());
  std::sort(all.begin(), all.end());
  return all;
}

class Recipes : public testing::TestWithParam<std::string> {
 protected:
  std::string family_ = GetParam().substr(0, GetParam().find('/'));
  std::string method_ = GetParam().substr(GetParam().find('/') + 1);
  std::string file_ = source_path("configs/models/" + GetParam() + ".json");
  Json recipe_ = Json::parse(read_file(file_, 1 << 20));
  std::string id_ = recipe_["model"]["model_name_or_path"];
  test::TempFolder folder_;

  // Returns the GPU that configs/README.md names.
  std::string gpu() const {
    if (family_ != "mixtral") return "24GB";
    return method_ == "lora" ? "141GB" : "48GB";
  }
  // Writes pairs of answers as token ids, and returns their path.
  std::string pairs() const {
    std::string rows;
    for (int i = 5; i < 15; ++i)
      rows += str(R"({"prompt_ids": [)", i, R"(, 7], "chosen_ids": [9, )", i,
                  R"(, 12], "rejected_ids": [4, )", i, "]}\n");
    return folder_.write("pairs.jsonl", rows);
  }
  // Overrides that name a small model and rows for it.
  Words small() const {
    const std::map<std::string, std::string> golden{
        {"gpt_oss", "gpt-oss"}, {"llama3", "llama-llama3"}, {"phi4", "phi3"}, {"t5", "t5-v11"}};
    const auto at = golden.find(family_);
    const std::string model =
                          source_path("tests/golden/models/" + (at == golden.end() ? family_ : at->second)),
                      demo = source_path("configs/demo");
    const auto rows = [](const std::string& path, const std::string& type) {
      return "data.datasets=" + Json::array({{{"path", path}, {"type", type}}}).dump();
    };
    if (method_ == "grpo")
      return {"model.model_name_or_path=" + demo + "/base", rows(demo + "/questions.jsonl", "prompts")};
    const bool compares = method_ == "dpo" || method_ == "orpo";
    return {"model.model_name_or_path=" + model + "/model",
            compares ? rows(pairs(), "preference_tokenized") : rows(model + "/samples.jsonl", "tokenized")};
  }
  // Overrides for a run of one step on a CPU, in a dtype that every CPU has.
  Words one_step() const {
    Words words = small();
    for (const char* word :
         {"device=cpu", "training.bf16=false", "training.max_steps=1", "data.val_set_size=2"})
      words.emplace_back(word);
    words.push_back("training.output_dir=" + (folder_ / "out"));
    for (const auto& [name, value] : recipe_["data"].items())
      if (name.ends_with("_length")) words.push_back("data." + name + "=64");
    if (method_ == "grpo") words.emplace_back("objective.max_completion_length=8");
    return words;
  }
  Outcome run_one_step(const std::string& command) const {
    Words words{command, "--config", file_};
    const Words more = one_step();
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
};

// A short run is evaluated and saved too.
TEST_P(Recipes, EvaluatesAndSavesEveryEpoch) {
  const RunConfig c = load_config(file_, {});
  EXPECT_EQ(c.evaluation.eval_strategy, EvalStrategy::epoch);
  EXPECT_GT(recipe_["data"].value("val_set_size", 0.0), 0);
  EXPECT_EQ(recipe_["checkpointing"].value("save_strategy", ""), "epoch");
  EXPECT_EQ(c.training.output_dir,
            source_path("configs/models/" + family_ + "/outputs/" + family_ + "_" + method_));
}

TEST_P(Recipes, IsPlannedWithShapesAlone) {
  const Json plan = least_plan(id_, {"--config", file_});
  EXPECT_GT(plan["total"], 0);
  EXPECT_LT(plan["total"], gpu_memory(gpu()));
  const auto model =
      std::find_if(kPublished.begin(), kPublished.end(), [&](const Published& p) { return p.id == id_; });
  ASSERT_NE(model, kPublished.end()) << id_;
  if (model->adapter > 0) {
    EXPECT_EQ(plan["trained_parameters"], model->adapter);
  }
}

TEST_P(Recipes, TrainsAStep) {
  const Outcome valid = run_one_step("validate");
  ASSERT_EQ(valid.code, 0) << valid.err;
  const Outcome trained = run_one_step("train");
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_TRUE(std::filesystem::exists(folder_ / "out/adapter_model.safetensors"));
}

INSTANTIATE_TEST_SUITE_P(All, Recipes, testing::ValuesIn(recipes()), [](const auto& recipe) {
  std::string name = recipe.param;
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
});

}  // namespace
}  // namespace ft
