// DeepSpeed's file, tested from outside: every command about a run accepts it.
#include <gtest/gtest.h>

#include "tests/life/program.h"

namespace ft::test {
namespace {

constexpr const char* kFile = R"({
  // for two ranks
  "train_batch_size": 4, "gradient_accumulation_steps": 1, "gradient_clipping": "auto",
  "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 2, "warmup_type": "linear"}},
  "zero_optimization": {"stage": 2, "sub_group_size": 5e5},
})";

class DeepSpeedPlace : public Workplace {
 public:
  explicit DeepSpeedPlace(const Json& more = Json::object()) : Workplace("llama", config(more)) {
    std::ofstream(*this / "ds.json") << kFile;
  }

 private:
  static Json config(const Json& more) {
    Json c = {{"training", {{"per_device_train_batch_size", nullptr}, {"max_steps", 3}}},
              {"data", {{"val_set_size", 2}}}};
    c.merge_patch(more);
    return c;
  }
};

TEST(DeepSpeedLife, EveryCommandTakesTheFile) {
  const DeepSpeedPlace w;
  const std::vector<std::string> file{"--config", "run.json", "--deepspeed", "ds.json"};
  const auto with = [&](std::vector<std::string> words, const std::vector<std::string>& more = {}) {
    words.insert(words.end(), file.begin(), file.end());
    words.insert(words.end(), more.begin(), more.end());
    return w.run(words);
  };
  ASSERT_EQ(with({"train"}, {"logging.progress=plain"}), 0) << w.says();
  EXPECT_NE(w.says().find("sub_group_size"), std::string::npos) << w.says();
  EXPECT_EQ(with({"launch", "-n", "2", "train"}, {"training.output_dir=two"}), 0) << w.says();
  for (const char* command : {"validate", "plan", "eval"}) EXPECT_EQ(with({command}), 0) << w.says();
  EXPECT_EQ(with({"sweep", "--dry-run"}, {"sweep.grid={\"lora.r\": [4, 8]}"}), 0) << w.says();
  const Json kept = Json::parse(contents(w / "out/deepspeed.json"));
  EXPECT_EQ(kept["batch"]["train_batch_size"], 4);
  EXPECT_EQ(kept["values"]["gradient_clipping"], 1);
  const Json one = Json::parse(contents(w / "out/run.json")), two = Json::parse(contents(w / "two/run.json"));
  EXPECT_EQ(one["training"]["per_device_train_batch_size"], 4);
  EXPECT_EQ(two["training"]["per_device_train_batch_size"], 2);
  EXPECT_EQ(one["deepspeed"], nullptr);
  EXPECT_EQ(w.run({"train", "--config", "out/run.json", "training.output_dir=again"}), 0) << w.says();
  EXPECT_EQ(losses(w / "again"), losses(w / "out"));
}

TEST(DeepSpeedLife, AFileInRunJsonAndOneThatIsRefused) {
  const Json more = {{"deepspeed", {{"train_batch_size", 6}, {"amp", {{"enabled", true}}}}}};
  const DeepSpeedPlace w(more);
  EXPECT_EQ(w.run({"train", "--config", "run.json"}), 2);
  EXPECT_NE(w.says().find("amp"), std::string::npos) << w.says();
  EXPECT_FALSE(fs::exists(w / "out"));
  EXPECT_EQ(w.run({"launch", "-n", "2", "train", "--config", "run.json"}), 2) << w.says();
}

}  // namespace
}  // namespace ft::test
