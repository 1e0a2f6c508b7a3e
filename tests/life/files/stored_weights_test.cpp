// Frozen values that are read from the model's own files: the same training, a smaller file, and an error if
// the model changes during the run.
#include "tests/life/ranks/ranks.h"

namespace ft::test {
namespace {

using Settings = std::vector<std::string>;
const Settings kInFiles = {"zero_optimization.offload_param.device=nvme",
                           "zero_optimization.offload_param.nvme_path=.",
                           "zero_optimization.stage3_param_persistence_threshold=0"};

Settings in_files(Settings a) {
  a.insert(a.end(), kInFiles.begin(), kInFiles.end());
  return a;
}

// Makes three copies of the workplace's model: "narrow" with every weight as `dtype`, and in 4 bits "packed"
// with double quantization and "single" without.
void make_models(const Workplace& w, const std::string& dtype) {
  ASSERT_EQ(w.run({"export", "--to", "hf", "--from", "model", "--output", "narrow", "--dtype", dtype}), 0)
      << w.says();
  ASSERT_EQ(w.run({"quantize", "--model", "narrow", "--output", "packed", "--double"}), 0) << w.says();
  ASSERT_EQ(w.run({"quantize", "--model", "narrow", "--output", "single"}), 0) << w.says();
}

std::int64_t elsewhere(const Workplace& w) {
  return rows(w / "out/log.jsonl").back().at("memory").at("elsewhere");
}

struct StoredCase {
  const char *golden, *model, *dtype;
  int ranks, stage;
  bool bf16;
};

std::ostream& operator<<(std::ostream& to, const StoredCase& c) {
  return to << c.golden << ' ' << c.model << ' ' << c.dtype << ", ranks " << c.ranks << ", stage " << c.stage
            << (c.bf16 ? " bf16" : "");
}

class StoredWeights : public testing::TestWithParam<StoredCase> {};

TEST_P(StoredWeights, TrainEqually) {
  const StoredCase& c = GetParam();
  Json config = {{"lora", {{"r", 4}}}};
  if (std::string(c.golden) == "t5")
    config["data"] = {{"max_seq_length", nullptr}, {"max_source_length", 64}, {"max_target_length", 64}};
  const Workplace w(c.golden, config);
  ASSERT_NO_FATAL_FAILURE(make_models(w, c.dtype));
  const Settings settings = {std::string("model.model_name_or_path=") + c.model,
                             std::string("training.bf16=") + (c.bf16 ? "true" : "false")};
  ASSERT_EQ(w.run(command(c.ranks, c.stage, 2, settings)), 0) << w.says();
  const auto want = losses(w / "out");
  const std::string weights = contents(w / file_of(config));
  fs::remove_all(w / "out");
  ASSERT_EQ(w.run(command(c.ranks, c.stage, 2, in_files(settings))), 0) << w.says();
  EXPECT_EQ(losses(w / "out"), want);
  EXPECT_TRUE(contents(w / file_of(config)) == weights);
}
INSTANTIATE_TEST_SUITE_P(All, StoredWeights,
                         testing::Values(StoredCase{"llama", "narrow", "float32", 1, 0, false},
                                         StoredCase{"llama", "narrow", "bfloat16", 2, 3, true},
                                         StoredCase{"llama", "packed", "float32", 1, 3, true},
                                         StoredCase{"llama", "packed", "bfloat16", 2, 3, false},
                                         StoredCase{"llama", "single", "bfloat16", 1, 0, true},
                                         StoredCase{"t5", "narrow", "bfloat16", 1, 0, true},
                                         StoredCase{"t5", "packed", "float32", 2, 3, false},
                                         StoredCase{"qwen3", "packed", "bfloat16", 1, 0, true}));

// The file contains only values that no model file has in the right dtype: the trained adapter, and values of
// another dtype.
TEST(StoredWeightsPlan, IsThatOfTheSmallerFile) {
  const Workplace w("llama", kLora);
  ASSERT_NO_FATAL_FAILURE(make_models(w, "bfloat16"));
  const auto bytes = [&](const std::string& model, const std::string& bf16) {
    const Settings settings =
        in_files({"model.model_name_or_path=" + model, "training.bf16=" + bf16, "training.max_steps=1"});
    Settings plan = {"plan", "--config", "run.json", "--json"};
    plan.insert(plan.end(), settings.begin(), settings.end());
    EXPECT_EQ(w.run(plan), 0) << w.says();
    const std::int64_t planned = Json::parse(contents(w / "stdout")).at("elsewhere");
    fs::remove_all(w / "out");
    EXPECT_EQ(w.train(settings), 0) << w.says();
    EXPECT_EQ(elsewhere(w), planned);
    return planned;
  };
  const std::int64_t same = bytes("narrow", "true"), wider = bytes("narrow", "false");
  EXPECT_GT(wider, same + static_cast<std::int64_t>(fs::file_size(w / "narrow/model.safetensors")));
  EXPECT_LT(bytes("packed", "true"), same + 64 * 4096);  // one block for each nested_offset
}

TEST(StoredWeightsFile, ThatChangesEndsTheRun) {
  for (const bool cut : {false, true}) {
    const Workplace w("llama", kLora);
    ASSERT_NO_FATAL_FAILURE(make_models(w, "float32"));
    const pid_t pid =
        w.start(in_files({"train", "--config", "run.json", "model.model_name_or_path=narrow",
                          "training.num_train_epochs=100000", "checkpointing.save_total_limit=2"}));
    ASSERT_TRUE(w.wait_for_rows(2)) << w.says();
    const fs::path file = w / "narrow/model.safetensors";
    if (cut)
      fs::resize_file(file, fs::file_size(file) / 2);
    else
      std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(-4, std::ios::end) << "abcd";
    EXPECT_EQ(Workplace::finish(pid), 3);
    EXPECT_NE(w.says().find("narrow/model.safetensors: has changed"), std::string::npos) << w.says();
  }
}

}  // namespace
}  // namespace ft::test
