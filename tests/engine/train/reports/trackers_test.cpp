// W&B's and MLflow's files. The expected bytes were made with the Python packages wandb 0.31.0 and
// tensorboard 2.21.0; tests/golden/check_trackers.py reads a complete run back.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "engine/files/protobuf.h"
#include "engine/train/reports/crc.h"
#include "engine/train/reports/hparams.h"
#include "engine/train/reports/mlflow.h"
#include "engine/train/reports/tracked.h"
#include "engine/train/reports/wandb.h"
#include "tests/engine/train/sample_run.h"

namespace ft {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSettings = R"({
  "$schema": "x", "training": {"learning_rate": 1e-4, "bf16": "auto", "seed": 7},
  "lora": {"rank_pattern": {"layers.0.q": 4}, "target_modules": ["q_proj"]}, "zero_stage": null})";

RunHeader header() {
  RunHeader h = sample_header();
  h.version = "1.2.3";
  h.settings = kSettings;
  return h;
}

std::vector<fs::path> files_below(const std::string& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

TEST(Tracked, SettingsAreLeavesWithDottedNames) {
  std::vector<std::string> got;
  for (const auto& [name, value] : flat_settings(kSettings)) got.push_back(name + "=" + plain_text(value));
  EXPECT_EQ(got, (std::vector<std::string>{"training.learning_rate=0.0001", "training.bf16=auto",
                                           "training.seed=7", R"(lora.rank_pattern={"layers.0.q":4})",
                                           R"(lora.target_modules=["q_proj"])", "zero_stage=null"}));
}

TEST(Tracked, NumbersThatAreNotFiniteAreLeftOut) {
  EXPECT_EQ(numbers_of(Json{{"step", 3}, {"loss", 0.5}, {"grad_norm", nullptr}, {"by", "x"}}),
            (Measures{{"loss", 0.5}}));
}

TEST(Tracked, MemoryIsThatOfThisMachine) {
  const Measures memory = system_memory();
  ASSERT_EQ(memory.size(), 3u);
  EXPECT_GT(memory[0].second, 0);
  EXPECT_LE(memory[0].second, 100);
  EXPECT_GT(memory[1].second, 1);
  EXPECT_GT(memory[2].second, 1);
}

TEST(HParams, ValuesAreTensorBoardsBytes) {
  const tensorboard::Settings settings{{"a", 1.5}, {"b", true}, {"c", "x"}, {"d", nullptr}};
  EXPECT_EQ(hex(tensorboard::text_value("config", "hi")),
            "0a06636f6e666967420c0807120412020801420268694a0a0a060a04746578742002");
  EXPECT_EQ(
      hex(tensorboard::session_start_value(settings, 2.0)),
      "0a1c5f68706172616d735f2f73657373696f6e5f73746172745f696e666f42060801120212004a3d0a390a0768706172616d"
      "73122e1a2c0a0e0a0161120911000000000000f83f0a070a0162120220010a080a016312031a017829000000000000004020"
      "02");
  EXPECT_EQ(
      hex(tensorboard::experiment_value(settings, {"eval/loss"}, 2.0)),
      "0a145f68706172616d735f2f6578706572696d656e7442060801120212004a3e0a3a0a0768706172616d73122f122d190000"
      "00000000004022050a0161200322050a0162200222050a016320012a0d0a0b12096576616c2f6c6f73732002");
  EXPECT_EQ(
      hex(tensorboard::session_end_value(true, 3.0)),
      "0a1a5f68706172616d735f2f73657373696f6e5f656e645f696e666f42060801120212004a1c0a180a0768706172616d7312"
      "0d220b08011100000000000008402002");
}

TEST(WandbFormat, ARecordIsWandbsBytes) {
  wandb::Framing framing;
  EXPECT_EQ(hex(framing.begin()), "3a572642e1be00");
  using namespace protobuf;  // NOLINT: a message
  const std::string item = bytes(2, "train/loss") + bytes(16, "0.5");
  const std::string record = integer(1, 3) + bytes(2, bytes(1, item) + bytes(2, integer(1, 2)));
  EXPECT_EQ(hex(framing.frame(record)),
            "6b85c20d1c0001080312180a12120a747261696e2f6c6f7373820103302e3512020802");
}

// Splits a file into records, and checks every checksum.
std::vector<std::string> wandb_records(const std::string& file) {
  std::vector<std::string> out;
  std::string whole;
  for (std::size_t at = 7; at < file.size();) {
    if (const std::size_t room = 32768 - at % 32768; room < 7) {
      EXPECT_EQ(file.substr(at, room), std::string(room, '\0'));
      at += room;
      continue;
    }
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(file.at(at + i)); };
    const std::size_t size = byte(4) | byte(5) << 8;
    EXPECT_LE(at % 32768 + 7 + size, 32768u) << "no piece crosses a block";
    const std::string typed = file.substr(at + 6, size + 1);
    EXPECT_EQ(file.substr(at, 4), protobuf::little_endian(crc32<kIeee>(typed)));
    whole = (byte(6) == 1 || byte(6) == 2 ? "" : whole) + typed.substr(1);
    if (byte(6) == 1 || byte(6) == 4) out.push_back(whole);
    at += 7 + size;
  }
  return out;
}

TEST(WandbFormat, LongRecordsAreCutAtBlocks) {
  wandb::Framing framing;
  std::string file = framing.begin();
  std::vector<std::string> records;
  for (const std::size_t size : {0, 5, 32700, 100000, 32768 - 7, 32768, 1, 40000}) {
    records.emplace_back(size, static_cast<char>('a' + records.size()));
    file += framing.frame(records.back());
  }
  EXPECT_EQ(wandb_records(file), records);
}

TEST(Wandb, ARunIsOneFolderAndAResumedOneKeepsIt) {
  const TestFolder folder;
  const auto only_file = [&] {
    const auto files = files_below(folder.path());
    EXPECT_EQ(files.size(), 1u);
    return files.front();
  };
  {
    Wandb first(folder.path(), {});
    first.begin(header());
    play(first, 1, 5);
  }
  const fs::path path = only_file();
  const std::string id = path.stem().string().substr(4);
  EXPECT_EQ(id.size(), 8u);
  EXPECT_TRUE(path.parent_path().filename().string().starts_with("offline-run-"));
  EXPECT_TRUE(path.parent_path().filename().string().ends_with("-" + id));

  RunHeader resumed = header();
  resumed.resumed_step = 2;
  resumed.past.steps = {sample_step(1), sample_step(2)};
  Wandb second(folder.path(), {.project = "p", .entity = "e", .group = "g"});
  second.begin(resumed);
  play(second, 3, 5);
  second.end(sample_summary(5));
  EXPECT_EQ(only_file(), path);
  const auto records = wandb_records(text_of(path.string()));
  const auto with = [&](const std::string& text) {
    return std::ranges::count_if(records, [&](const std::string& r) { return r.find(text) != r.npos; });
  };
  EXPECT_EQ(with("train/global_step"), 2 + 2 * 6) << "two axes, and history and summary of six rows";
  EXPECT_EQ(with("eval/perplexity"), 2);
  EXPECT_EQ(with("proc.memory.rssMB"), 3) << "of the rows of this process";
  EXPECT_EQ(with("train/train_loss"), 1);
  EXPECT_EQ(with("learning_rate\":0.0001"), 1) << "the settings";
}

TEST(Mlflow, TheStoreHoldsRunParametersAndMetrics) {
  const TestFolder folder;
  const std::string store = folder.file("mlruns");
  const auto run = [&] {
    fs::path found;
    for (const fs::path& p : files_below(store))
      if (p.filename() == "loss") found = p.parent_path().parent_path();
    return found;
  };
  {
    Mlflow first(folder.path(), "an experiment: 1");
    first.begin(header());
    play(first, 1, 4);
  }
  const fs::path at = run();
  EXPECT_NE(text_of(at / "meta.yaml").find("status: 1\n"), std::string::npos) << "it runs";
  EXPECT_NE(text_of(at.parent_path() / "meta.yaml").find("name: \"an experiment: 1\"\n"), std::string::npos);
  EXPECT_EQ(text_of(at / "params/training.learning_rate"), "0.0001");

  RunHeader resumed = header();
  resumed.resumed_step = 2;
  resumed.past.steps = {sample_step(1), sample_step(2)};
  Mlflow second(folder.path(), "an experiment: 1");
  second.begin(resumed);
  play(second, 3, 5);
  second.end(sample_summary(5));
  EXPECT_EQ(run(), at) << "the same experiment, the same run";
  const auto losses = lines_of(at / "metrics/loss");
  ASSERT_EQ(losses.size(), 5u);
  EXPECT_TRUE(losses[4].ends_with(" 5"));
  EXPECT_EQ(lines_of(at / "metrics/eval_loss").size(), 1u);
  EXPECT_EQ(lines_of(at / "metrics/system/process_memory_mb").size(), 3u);
  EXPECT_NE(text_of(at / "meta.yaml").find("status: 3\n"), std::string::npos) << "it has finished";
  EXPECT_NE(text_of(at / "meta.yaml").find("run_id: " + at.filename().string()), std::string::npos);
}

// Somebody exchanges the store and a link all the time: what the run writes is in the store or nowhere.
TEST(Mlflow, IsNotLedAwayByAChangingLink) {
  const TestFolder folder;
  fs::create_directory(folder.file("elsewhere"));
  fs::create_symlink("elsewhere", folder.file("away"));
  Mlflow run(folder.path(), "x");
  run.begin(header());
  std::atomic<bool> stop{false};
  std::thread somebody([&] {
    while (!stop)
      ::renameat2(AT_FDCWD, folder.file("mlruns").c_str(), AT_FDCWD, folder.file("away").c_str(),
                  RENAME_EXCHANGE);
  });
  int written = 0;
  const auto attempt = [&](const auto& act) {
    try {
      act();
      return true;
    } catch (const UserError&) {
      return false;
    }
  };
  for (int i = 0; i < 1000; ++i) {
    if (i % 4 == 0) attempt([&] { run.begin(header()); });
    written += attempt([&] { run.end(sample_summary(1)); });
  }
  stop = true;
  somebody.join();
  EXPECT_GT(written, 0);
  EXPECT_TRUE(fs::is_empty(folder.file("elsewhere")));
}

// The link appears before the run or, where the tracker opens or replaces files later, during it.
TEST(Trackers, WriteNothingThroughALinkedFolder) {
  const TestFolder folder;
  fs::create_directory(folder.file("elsewhere"));
  const auto refused = [&](const std::string& name, const auto& write) {
    try {
      write();
      ADD_FAILURE() << name << ": a link was followed";
    } catch (const UserError& e) {
      EXPECT_EQ(e.code, Exit::storage);
      EXPECT_NE(std::string(e.what()).find(name + ": is a symbolic link"), std::string::npos) << e.what();
    }
    EXPECT_TRUE(fs::is_empty(folder.file("elsewhere"))) << name;
  };
  for (const std::string name : {"mlruns", "wandb"}) fs::create_symlink("elsewhere", folder.file(name));
  refused("mlruns", [&] { Mlflow(folder.path(), "x").begin(header()); });
  refused("wandb", [&] { Wandb(folder.path(), {}).begin(header()); });
  fs::remove(folder.file("mlruns"));
  Mlflow during(folder.path(), "x");
  during.begin(header());
  fs::rename(folder.file("mlruns"), folder.file("moved"));
  fs::create_symlink("elsewhere", folder.file("mlruns"));
  refused("mlruns", [&] { during.step(sample_step(1)); });
  refused("mlruns", [&] { during.end(sample_summary(1)); });
}

}  // namespace
}  // namespace ft
