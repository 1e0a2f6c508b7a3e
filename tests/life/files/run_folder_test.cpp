// The folder of a run: files that may not be in it, processes that may write there, and the checkpoints at
// the end.
#include <gtest/gtest.h>

#include "tests/life/program.h"

namespace ft::test {
namespace {

using Words = std::vector<std::string>;

Json saving(int every) {
  Json run = kLora;
  run["training"] = {{"max_steps", 7}};
  run["logging"] = {{"progress", "plain"}};
  run["checkpointing"] = {{"save_strategy", "steps"}, {"save_steps", every}};
  return run;
}

class Folder : public testing::Test {
 protected:
  Folder() { fs::copy(fs::canonical(w / "model"), w / "base", fs::copy_options::recursive); }
  bool says(const std::string& text) const { return w.says().find(text) != std::string::npos; }
  static void remove_content(const fs::path& folder) {
    for (const auto& entry : fs::directory_iterator(folder)) fs::remove_all(entry.path());
  }
  static void flip_last_byte(const fs::path& file) {
    std::string bytes = contents(file);
    bytes[bytes.size() - 1] = static_cast<char>(bytes[bytes.size() - 1] ^ 1);
    std::ofstream(file, std::ios::binary) << bytes;
  }
  Workplace w{"llama", saving(3)};
};

TEST_F(Folder, OfTheModelOrTheAdapterIsRefused) {
  ASSERT_EQ(w.train({"training.output_dir=adapter"}), 0) << w.says();
  fs::create_directory_symlink(w / "base", w / "link");
  fs::create_directory(w / "sub");
  const std::string base = contents(w / "base/model.safetensors");
  const std::string adapter = contents(w / "adapter/adapter_model.safetensors");
  for (const char* output : {"base", "./base/", "sub/../base", "link"})
    for (const bool overwrite : {false, true}) {
      Words words = {"model.model_name_or_path=base", "finetuning_type=full",
                     std::string("training.output_dir=") + output};
      if (overwrite) words.emplace_back("--overwrite");
      EXPECT_EQ(w.train(words), 2) << output;
      EXPECT_TRUE(says("training.output_dir: ")) << w.says();
    }
  EXPECT_EQ(w.train({"lora.adapter_name_or_path=adapter", "training.output_dir=adapter", "--overwrite"}), 2);
  EXPECT_EQ(w.run({"merge", "--model", "base", "--adapter", "adapter", "--output", "link", "--overwrite"}),
            2);
  EXPECT_EQ(w.run({"merge", "--model", "base", "--adapter", "adapter", "--output", "adapter", "--overwrite"}),
            2);
  EXPECT_EQ(contents(w / "base/model.safetensors"), base);
  EXPECT_EQ(contents(w / "adapter/adapter_model.safetensors"), adapter);
  EXPECT_FALSE(fs::exists(w / "base/run.json"));
}

TEST_F(Folder, IsOfOneRunAtATime) {
  const pid_t first = w.start(
      {"train", "--config", "run.json", "training.max_steps=1000000", "checkpointing.save_total_limit=2"});
  ASSERT_TRUE(w.wait_for_rows(2)) << w.says();
  for (const char* how : {"training.resume_from_checkpoint=auto", "--overwrite"}) {
    EXPECT_EQ(w.train({how, "training.max_steps=2"}), 2) << w.says();
    EXPECT_TRUE(says("training.output_dir: out: another run is going on")) << w.says();
  }
  kill(first, SIGKILL);
  Workplace::finish(first);
  EXPECT_EQ(w.train({"--overwrite", "training.max_steps=2"}), 0) << w.says();
}

TEST_F(Folder, HasACheckpointOfTheLastStep) {
  ASSERT_EQ(w.train(), 0) << w.says();
  for (const char* step : {"3", "6", "7"})
    EXPECT_TRUE(fs::exists(w / "out" / (std::string("checkpoint-") + step))) << step;
  ASSERT_EQ(w.train({"training.resume_from_checkpoint=auto", "training.max_steps=9"}), 0) << w.says();
  EXPECT_TRUE(says("after step 7")) << w.says();
  EXPECT_EQ(losses(w / "out").size(), 9u);
}

TEST_F(Folder, NamesCheckpointsThatItPassesOver) {
  ASSERT_EQ(w.train(), 0) << w.says();
  remove_content(w / "out/checkpoint-7");
  flip_last_byte(w / "out/checkpoint-6/adapter_model.safetensors");
  ASSERT_EQ(w.train({"training.resume_from_checkpoint=auto"}), 0) << w.says();
  EXPECT_TRUE(says("out/checkpoint-7: is not a checkpoint of ft: it has no manifest.json")) << w.says();
  EXPECT_TRUE(says("out/checkpoint-6/adapter_model.safetensors: is damaged")) << w.says();
  EXPECT_TRUE(says("after step 3")) << w.says();
  for (const char* step : {"3", "6", "7"}) remove_content(w / "out" / (std::string("checkpoint-") + step));
  EXPECT_EQ(w.train({"training.resume_from_checkpoint=true"}), 4);
  for (const char* step : {"3", "6", "7"})
    EXPECT_TRUE(says(std::string("out/checkpoint-") + step + ": is not a checkpoint")) << w.says();
  EXPECT_EQ(w.run({"checkpoint", "verify", "out"}), 4);
}

TEST_F(Folder, SuggestsCommandsAsAShellTakesThem) {
  ASSERT_EQ(w.train({"training.output_dir=my run", "model.model_name_or_path=base"}), 0) << w.says();
  EXPECT_TRUE(says("--adapter 'my run'")) << w.says();
  EXPECT_FALSE(says("--adapter my run")) << w.says();
}

Json choosing_the_best() {
  Json run = saving(2);
  run["training"] = {{"max_steps", 8}, {"learning_rate", 0.5}};
  run["data"] = {{"val_set_size", 4}};
  run["evaluation"] = {{"eval_strategy", "steps"}, {"eval_steps", 2}, {"load_best_model_at_end", true}};
  return run;
}

class Best : public testing::TestWithParam<bool> {};

// GetParam(): the best checkpoint is removed; otherwise it is damaged.
TEST_P(Best, CheckpointThatIsLostIsNamedAndTheNextBestIsTheResult) {
  const Workplace w("llama", choosing_the_best());
  ASSERT_EQ(w.train(), 0) << w.says();
  const Json state = Json::parse(contents(w / "out/trainer_state.json"));
  const std::string best = "out/checkpoint-" + state["best_global_step"].dump();
  EXPECT_EQ(contents(w / "out/adapter_model.safetensors").empty(), false);
  if (GetParam())
    fs::remove_all(w / best);
  else
    std::ofstream(w / best / "adapter_model.safetensors", std::ios::app) << "x";
  ASSERT_EQ(w.train({"training.resume_from_checkpoint=auto", "training.max_steps=10"}), 0) << w.says();
  EXPECT_NE(w.says().find(best), std::string::npos) << w.says();
  EXPECT_TRUE(fs::exists(w / "out/adapter_model.safetensors"));
  const Json now = Json::parse(contents(w / "out/trainer_state.json"));
  EXPECT_NE(now["best_global_step"], state["best_global_step"]);
  const Json name = now["best_model_checkpoint"];
  ASSERT_TRUE(name.is_string());
  EXPECT_TRUE(fs::exists(w / name.get<std::string>())) << name;
}
INSTANTIATE_TEST_SUITE_P(All, Best, testing::Bool());

}  // namespace
}  // namespace ft::test
