// Validates, plans and trains each ready-made configuration for one step, with a small model. Configurations
// for several ranks run by ft launch.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/files/json.h"
#include "tests/app/outcome.h"
#include "tests/engine/files/temp_folder.h"
#include "tests/support/source.h"

namespace ft {
namespace {

using Names = std::vector<std::string>;

class Examples : public testing::TestWithParam<std::string> {
 protected:
  std::string file_ = source_path("configs/" + GetParam() + ".json");
  test::TempFolder folder_;

  bool t5() const { return GetParam().starts_with("t5"); }

  // Overrides that name a small model and data in the repository.
  Names small() const {
    const std::string golden = source_path("tests/golden/models/t5/"), demo = source_path("configs/demo/");
    const std::string row = t5() ? R"({"path": ")" + golden + R"(samples.jsonl", "type": "tokenized"})"
                                 : R"({"path": ")" + demo + R"(questions.jsonl"})";
    Names all{"model.model_name_or_path=" + (t5() ? golden + "model" : demo + "base"),
              "data.datasets=[" + row + "]"};
    if (Json::parse(std::ifstream(file_)).contains("evaluation")) all.emplace_back("data.val_set_size=2");
    return all;
  }
  Names with(Names words, const Names& more) const {
    const Names own = small();
    words.insert(words.end(), {"--config", file_});
    words.insert(words.end(), own.begin(), own.end());
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // Overrides for a short run of one step on a CPU, in a dtype that every CPU has.
  Names one_step() const {
    return {"device=cpu",
            "training.bf16=false",
            "training.max_steps=1",
            "training.gemm_tuning=null",
            "training.output_dir=" + (folder_ / "out"),
            t5() ? "data.max_source_length=64" : "data.max_seq_length=64"};
  }
};

TEST_P(Examples, ArePlanned) {
  const Json config = Json::parse(std::ifstream(file_));
  Names command{"plan", "--json"};
  if (config.contains("device")) command.insert(command.end(), {"--gpu", "80GiB"});
  const Outcome o = run(with(command, {}));
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_GT(Json::parse(o.out)["total"].get<double>(), 0);
}

TEST_P(Examples, AreTrainedForAStep) {
  const Outcome valid = run(with({"validate"}, one_step()));
  ASSERT_EQ(valid.code, 0) << valid.err;
  const bool ranks = GetParam() == "llama_ranks" || GetParam() == "llama_machines";
  if (!ranks) {
    const Outcome trained = run(with({"train"}, one_step()));
    ASSERT_EQ(trained.code, 0) << trained.err;
  } else {
    std::string line = FT_PROGRAM_DIR "/ft";
    for (const std::string& word : with({"launch", "train", "distributed.nproc_per_node=2"}, one_step()))
      line += " '" + word + "'";
    ASSERT_EQ(std::system(line.c_str()), 0);
  }
  EXPECT_TRUE(std::filesystem::exists(folder_ / "out/trainer_state.json"));
}

INSTANTIATE_TEST_SUITE_P(All, Examples,
                         testing::Values("llama_lora", "llama_qlora", "llama_full", "t5_small_zero2",
                                         "llama_ranks", "llama_machines", "llama_long_context", "llama_gpu"),
                         [](const auto& example) { return example.param; });

}  // namespace
}  // namespace ft
