// Runs whose folder, files or time are taken away: an old run is kept until the new one has a checkpoint, a
// removed folder is made again, a signal saves and goes on, and a sweep tries killed runs again.
#include <gtest/gtest.h>

#include "tests/life/ranks/ports.h"

namespace ft::test {
namespace {

using Words = std::vector<std::string>;

constexpr const char* kAuto = "training.resume_from_checkpoint=auto";
constexpr const char* kResult = "out/adapter_model.safetensors";

Json saved_every(int every) {
  Json run = kLora;
  run["training"] = {{"max_steps", 4}};
  run["logging"] = {{"progress", "plain"}};
  run["checkpointing"] = {{"save_strategy", "steps"}, {"save_steps", every}};
  return run;
}

class RunInTrouble : public testing::Test {
 protected:
  bool says(const std::string& text) const { return w.says().find(text) != std::string::npos; }
  // True if the run's folder has a complete checkpoint.
  bool saved() const {
    for (const auto& entry : fs::directory_iterator(w / "out"))
      if (fs::exists(entry.path() / "manifest.json") &&
          entry.path().filename().string().find(".tmp") == std::string::npos)
        return true;
    return false;
  }
  bool waits_for(const std::string& file) const {
    return comes_to_hold(120, [&] { return fs::exists(w / file); });
  }
  Workplace w{"llama", saved_every(2)};
};

TEST_F(RunInTrouble, AnOldRunStaysUntilTheNewOneHasACheckpoint) {
  ASSERT_EQ(w.train({"training.learning_rate=0.01"}), 0) << w.says();
  const std::string old = contents(w / kResult);
  const Words next{"--overwrite", "training.max_steps=1000000", "checkpointing.save_strategy=no"};
  Words words{"train", "--config", "run.json"};
  words.insert(words.end(), next.begin(), next.end());
  const pid_t run = w.start(words);
  ASSERT_TRUE(w.wait_for_words("the run that was there is in out/replaced-run")) << w.says();
  ASSERT_TRUE(w.wait_for_rows(1)) << w.says();
  kill(run, SIGKILL);
  Workplace::finish(run);
  EXPECT_TRUE(contents(w / "out/replaced-run/adapter_model.safetensors") == old);
  EXPECT_FALSE(fs::exists(w / "out/checkpoint-4"));
  ASSERT_EQ(w.train({kAuto}), 0) << w.says();
  EXPECT_FALSE(fs::exists(w / "out/replaced-run"));
  EXPECT_EQ(losses(w / "out").size(), 4u);
  EXPECT_FALSE(contents(w / kResult) == old);
}

TEST_F(RunInTrouble, NothingOfAnOldRunIsResumedOnceItIsBeingReplaced) {
  ASSERT_EQ(w.train({"training.output_dir=calm"}), 0) << w.says();
  ASSERT_EQ(w.train({"training.learning_rate=0.01"}), 0) << w.says();
  fs::create_directory(w / "out/replaced-run.part");
  fs::rename(w / "out/checkpoint-2", w / "out/replaced-run.part/checkpoint-2");
  ASSERT_EQ(w.train({"training.resume_from_checkpoint=true"}), 4) << w.says();
  ASSERT_EQ(w.train({kAuto}), 0) << w.says();
  EXPECT_TRUE(contents(w / kResult) == contents(w / "calm/adapter_model.safetensors"));
  EXPECT_FALSE(fs::exists(w / "out/replaced-run.part"));
}

TEST_F(RunInTrouble, ARemovedFolderIsMadeAgainAndHasTheResult) {
  ASSERT_EQ(w.train({"training.output_dir=calm", "training.max_steps=600"}), 0) << w.says();
  const pid_t run =
      w.start({"train", "--config", "run.json", "training.max_steps=600", "checkpointing.save_steps=300"});
  ASSERT_TRUE(w.wait_for_rows(20)) << w.says();
  fs::remove_all(w / "out");
  EXPECT_EQ(Workplace::finish(run), 0) << w.says();
  EXPECT_TRUE(says("training.output_dir: out was removed during the run; it is made again")) << w.says();
  EXPECT_TRUE(says("out/log.jsonl: was removed during the run")) << w.says();
  EXPECT_TRUE(contents(w / kResult) == contents(w / "calm/adapter_model.safetensors"));
  EXPECT_TRUE(fs::exists(w / "out/run.json"));
  EXPECT_EQ(w.run({"checkpoint", "verify", "out"}), 0) << w.says();
}

TEST_F(RunInTrouble, ASignalSavesAndTheRunGoesOn) {
  for (const bool two_ranks : {false, true}) {
    Words words{
        "train",      "--config", "run.json", "training.max_steps=1000000", "checkpointing.save_strategy=no",
        "--overwrite"};
    if (two_ranks) words.insert(words.begin(), {"launch", "-n", "2"});
    fs::remove_all(w / "out");
    const pid_t run = w.start(words);
    ASSERT_TRUE(w.wait_for_rows(2)) << w.says();
    kill(run, SIGUSR2);
    ASSERT_TRUE(comes_to_hold(120, [&] { return says("SIGUSR2: finishing this step") && saved(); }))
        << w.says();
    const std::size_t before = rows(w / "out/log.jsonl").size();
    EXPECT_TRUE(w.wait_for_rows(before + 2)) << w.says();
    kill(run, SIGTERM);
    EXPECT_EQ(Workplace::finish(run), 75) << w.says();
    EXPECT_EQ(w.run({"checkpoint", "verify", "out"}), 0) << w.says();
  }
}

TEST_F(RunInTrouble, ASecondCtrlCEndsARunAtOnce) {
  const std::string samples = contents(w / "train.jsonl");
  for (int copy = 0; copy < 400; ++copy) std::ofstream(w / "train.jsonl", std::ios::app) << samples;
  for (const bool two_ranks : {false, true}) {
    // A step of seconds, so that the first signal is not yet obeyed when the second comes.
    Words words{"train",
                "--config",
                "run.json",
                "training.per_device_train_batch_size=1",
                "training.gradient_accumulation_steps=9000",
                "--overwrite"};
    if (two_ranks) words.insert(words.begin(), {"launch", "-n", "2"});
    fs::remove_all(w / "out");
    const pid_t run = w.start(words);
    ASSERT_TRUE(waits_for("out/log.jsonl")) << w.says();
    kill(run, SIGINT);
    ASSERT_TRUE(w.wait_for_words("once more ends the run at once")) << w.says();
    kill(run, SIGINT);
    EXPECT_EQ(Workplace::finish(run), 128 + SIGINT) << w.says();
    EXPECT_TRUE(nobody_left(w / "."));
    EXPECT_TRUE(contents(w / "out/log.jsonl").empty());
  }
}

TEST_F(RunInTrouble, ACheckpointTooManyIsRemovedWhenTheRunIsResumed) {
  ASSERT_EQ(w.train(), 0) << w.says();
  ASSERT_TRUE(fs::exists(w / "out/checkpoint-2"));
  ASSERT_EQ(w.train({kAuto, "checkpointing.save_total_limit=1"}), 0) << w.says();
  EXPECT_FALSE(fs::exists(w / "out/checkpoint-2"));
  EXPECT_TRUE(fs::exists(w / "out/checkpoint-4"));
}

TEST_F(RunInTrouble, ACheckpointThatIsResumedIsNotPruned) {
  ASSERT_EQ(w.train(), 0) << w.says();
  fs::resize_file(w / "out/checkpoint-4/adapter_model.safetensors", 3);
  ASSERT_EQ(w.train({kAuto, "checkpointing.save_total_limit=1", "training.max_steps=1",
                     "checkpointing.save_strategy=no", "training.resume_despite=training.max_steps"}),
            0)
      << w.says();
  EXPECT_TRUE(fs::exists(w / "out/checkpoint-2"));
}

TEST_F(RunInTrouble, AnOlderRunIsKeptWhenTheOneAfterItHadNoCheckpoint) {
  ASSERT_EQ(w.train({"training.learning_rate=0.01"}), 0) << w.says();
  const std::string old = contents(w / kResult);
  for (int time = 0; time < 2; ++time) {
    const pid_t run = w.start({"train", "--config", "run.json", "--overwrite", "training.max_steps=1000000",
                               "checkpointing.save_strategy=no"});
    ASSERT_TRUE(w.wait_for_words("the run that was there is in out/replaced-run")) << w.says();
    ASSERT_TRUE(w.wait_for_rows(1)) << w.says();
    kill(run, SIGKILL);
    Workplace::finish(run);
    EXPECT_TRUE(contents(w / "out/replaced-run/adapter_model.safetensors") == old) << time;
    EXPECT_TRUE(fs::exists(w / "out/replaced-run/run.json"));
  }
  EXPECT_EQ(w.train({"--overwrite", "lora.adapter_name_or_path=out/replaced-run"}), 2) << w.says();
}

TEST_F(RunInTrouble, CheckpointsAreListedAndPruned) {
  ASSERT_EQ(w.train({"training.max_steps=6"}), 0) << w.says();
  ASSERT_EQ(w.run({"checkpoint", "list", "out", "--json"}), 0) << w.says();
  const Json all = Json::parse(contents(w / "stdout"));
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[1]["step"], 4);
  EXPECT_EQ(all[1]["loss"], rows(w / "out/log.jsonl")[3]["loss"]);
  EXPECT_TRUE(all[1]["fault"].is_null());
  fs::resize_file(w / "out/checkpoint-4/adapter_model.safetensors", 3);
  ASSERT_EQ(w.run({"checkpoint", "list", "out"}), 0) << w.says();
  EXPECT_NE(contents(w / "stdout").find("damaged"), std::string::npos) << contents(w / "stdout");
  ASSERT_EQ(w.run({"checkpoint", "prune", "out", "--keep", "1", "--dry-run"}), 0) << w.says();
  EXPECT_TRUE(fs::exists(w / "out/checkpoint-2"));
  ASSERT_EQ(w.run({"checkpoint", "prune", "out", "--keep", "1"}), 0) << w.says();
  EXPECT_FALSE(fs::exists(w / "out/checkpoint-2"));
  EXPECT_TRUE(fs::exists(w / "out/checkpoint-4"));  // damaged: a person decides
  EXPECT_TRUE(fs::exists(w / "out/checkpoint-6"));
  EXPECT_EQ(w.run({"checkpoint", "list", "model"}), 4);
  EXPECT_TRUE(says("model: there is no checkpoint")) << w.says();
}

// A list compares only sizes, because finding a flipped byte takes reading every file. Commands that remove
// or convert checkpoints compare hashes.
TEST_F(RunInTrouble, AListComparesSizesAndAConversionHashes) {
  ASSERT_EQ(w.train(), 0) << w.says();
  ASSERT_EQ(w.run({"checkpoint", "convert", "out", "--output", "adapter"}), 0) << w.says();
  EXPECT_TRUE(says("out/checkpoint-4 -> adapter (PEFT)")) << w.says();
  ASSERT_EQ(w.run({"export", "--to", "peft", "--from", "out/checkpoint-4", "--output", "same"}), 0);
  EXPECT_EQ(contents(w / "adapter/adapter_model.safetensors"),
            contents(w / "same/adapter_model.safetensors"));
  ASSERT_EQ(w.run({"checkpoint", "convert", "out/checkpoint-2", "--to", "hf", "--output", "model-2"}), 0)
      << w.says();
  EXPECT_TRUE(fs::exists(w / "model-2/model.safetensors"));
  EXPECT_EQ(w.run({"checkpoint", "convert", "out", "--output", "adapter"}), 2) << w.says();
  std::string bytes = contents(w / "out/checkpoint-4/adapter_model.safetensors");
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  std::ofstream(w / "out/checkpoint-4/adapter_model.safetensors", std::ios::binary) << bytes;
  ASSERT_EQ(w.run({"checkpoint", "list", "out"}), 0) << w.says();
  EXPECT_EQ(contents(w / "stdout").find("damaged"), std::string::npos) << contents(w / "stdout");
  EXPECT_EQ(w.run({"checkpoint", "convert", "out/checkpoint-4", "--output", "damaged"}), 4);
  EXPECT_TRUE(says("is damaged: its SHA-256 is not the manifest's")) << w.says();
  EXPECT_FALSE(fs::exists(w / "damaged"));
  ASSERT_EQ(w.run({"checkpoint", "convert", "out", "--output", "older"}), 0) << w.says();
  EXPECT_TRUE(says("out/checkpoint-2 -> older")) << w.says();
  EXPECT_TRUE(says("is damaged: its SHA-256 is not the manifest's")) << w.says();  // of the newest
  EXPECT_EQ(w.run({"checkpoint", "convert", "model", "--output", "none"}), 4);
}

// Links that another user may have put into the folder are refused.
TEST_F(RunInTrouble, ALinkInTheFolderIsNotWrittenThrough) {
  fs::create_directory(w / "out");
  fs::create_directory(w / "elsewhere");
  std::ofstream(w / "elsewhere/file") << "kept";
  for (const char* name : {"log.jsonl", "rollouts.jsonl", "runs", "replaced-run"}) {
    fs::create_symlink(w / "elsewhere/file", w / "out" / name);
    EXPECT_EQ(w.train({"--overwrite"}), 6) << name;
    EXPECT_TRUE(says(std::string("out/") + name + ": is a symbolic link; ft writes through no link"))
        << w.says();
    fs::remove(w / "out" / name);
  }
  EXPECT_EQ(contents(w / "elsewhere/file"), "kept");
  ASSERT_EQ(w.train(), 0) << w.says();
}

TEST_F(RunInTrouble, ASampleOfAStepThatIsNotFiniteIsShown) {
  const Words words{"finetuning_type=full", "training.learning_rate=1e30", "training.max_grad_norm=0",
                    "training.optim=sgd"};
  EXPECT_EQ(w.train(words), 7) << w.says();
  const std::vector<Json> bad = rows(w / "out/nonfinite.jsonl");
  ASSERT_EQ(bad.size(), 3u);  // the sequences of a micro-batch
  EXPECT_EQ(bad[2]["sequence"], 2);
  EXPECT_GT(bad[2]["input_ids"].size(), 1u);
  EXPECT_EQ(bad[2]["step"], rows(w / "out/log.jsonl").size() + 1);
}

TEST_F(RunInTrouble, ASweepTriesKilledRunsAgain) {
  const Words words{"sweep",
                    "--config",
                    "run.json",
                    R"(sweep.grid={"training.seed": [1, 2]})",
                    "training.max_steps=400",
                    "checkpointing.save_strategy=no"};
  const pid_t sweep = w.start(words);
  ASSERT_TRUE(waits_for("out/seed=1/log.jsonl"));
  for (const pid_t p : processes_in(w / "."))
    if (p != sweep) kill(p, SIGKILL);
  EXPECT_EQ(Workplace::finish(sweep), 128 + SIGKILL) << w.says();
  EXPECT_TRUE(says("no result of 1 run; the same command tries again")) << w.says();
  const auto second = fs::last_write_time(w / "out/seed=2/log.jsonl");
  EXPECT_EQ(w.run(words), 0) << w.says();
  EXPECT_TRUE(says("2 of 2 runs")) << w.says();
  EXPECT_EQ(fs::last_write_time(w / "out/seed=2/log.jsonl"), second);
}

}  // namespace
}  // namespace ft::test
