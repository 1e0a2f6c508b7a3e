// The files of a folder that a hub gets, and the adapter's configuration.
#include "app/push/choice.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "engine/core/environment.h"
#include "engine/files/folder_lock.h"
#include "engine/files/json.h"
#include "tests/app/push/push_place.h"

namespace ft::test {
namespace {

struct PushChoice : PushPlace {
  std::string files() {
    std::string names;
    for (const hub::LocalFile& file : chosen().files) names += file.path + " ";
    return names;
  }
  std::string left_out() {
    std::string names;
    for (const hub::LeftOut& file : chosen().left_out) names += file.path + " (" + file.why + ") ";
    return names;
  }
  std::string refused_choice(Exit code) {
    return error_of(code, [&] { chosen(); });
  }
};

const std::string kAdapter = "README.md adapter_config.json adapter_model.safetensors ";

TEST_F(PushChoice, LeavesCheckpointsLogsAndHiddenFilesOut) {
  for (const char* path :
       {"checkpoint-10/adapter_model.safetensors", "log.jsonl", "rank1.log", "runs/a/events",
        "trainer_state.json", "samples.json", "replaced-run/log.jsonl", "report.html", "loss.svg",
        ".git/config", ".hidden", "adapter_model.safetensors.tmp-ft0123456789", "wandb/run.wandb",
        "rollouts.jsonl", "reference.safetensors", "run_facts.json"})
    write(path, "x");
  EXPECT_EQ(files(), kAdapter);
  EXPECT_EQ(left_out(),
            ".git/ (git's own) .hidden (hidden) adapter_model.safetensors.tmp-ft0123456789 (unfinished) "
            "checkpoint-10/ (a checkpoint) log.jsonl (a log) loss.svg (a log) rank1.log (a log) "
            "reference.safetensors (of the run) replaced-run/ (the run before) report.html (a log) "
            "rollouts.jsonl (answers) run_facts.json (a log) runs/ (a log) samples.json (answers) "
            "trainer_state.json (a log) wandb/ (a log) ");
}

TEST_F(PushChoice, PatternsAskForThem) {
  write("checkpoint-10/adapter_model.safetensors", "x");
  write("log.jsonl", "{}");
  write(".git/config", "x");
  args.patterns.include = {"*.jsonl", "checkpoint-10/"};
  EXPECT_EQ(files(), "checkpoint-10/adapter_model.safetensors log.jsonl ");
  args.patterns = {.include = {"*"}, .exclude = {"*.safetensors"}};
  EXPECT_EQ(files(), "adapter_config.json log.jsonl ");
  args.patterns = {.exclude = {"README.md", "adapter_config.json"}};
  EXPECT_EQ(files(), "README.md adapter_model.safetensors ");
  args.patterns.include = {"*.gguf"};
  EXPECT_NE(refused_choice(Exit::input).find("has no files to send; --include sends"), std::string::npos);
}

TEST_F(PushChoice, FilesThatNamePathsOfThisMachineStay) {
  write("run.json", R"({"data": ")" + (scratch.folder() / "rows.jsonl").string() + "\"}");
  write("notes.txt", "see /usr/share/doc, /nowhere/at/all and and/or");
  EXPECT_EQ(files(), "README.md adapter_config.json adapter_model.safetensors notes.txt ");
  EXPECT_EQ(left_out(), "run.json (names " + (scratch.folder() / "rows.jsonl").string() + ") ");
  args.patterns.include = {"run.json"};
  EXPECT_EQ(files(), "run.json ");
}

TEST(MachinePaths, AreFoundInTexts) {
  set_variable("HOME", "/home/anna");
  for (const char* text : {"/home/anna/x", "a: /home/anna/models", "{\"a\": \"/home/anna\"}",
                           "x=/home/anna/y,z", "'/home/anna/a b'", "file in\n/home/anna/x\n"})
    EXPECT_TRUE(hub::machine_path_in(text).starts_with("/home/anna")) << text;
  for (const char* text : {"", "/", "//", "and/or", "/home/annabel/x", "https://hub/home/anna", "/usr/lib/x",
                           "/etc/passwd", "/nowhere/x", "<|/s|>", "a / b", "////", "\n//// ////", " /// x"})
    EXPECT_EQ(hub::machine_path_in(text), "") << text;
}

TEST_F(PushChoice, AnAdaptersBaseGetsItsId) {
  const auto config = [&](const std::string& base) {
    write("adapter_config.json", R"({"r": 8, "base_model_name_or_path": ")" + base + "\"}");
  };
  const auto sent = [&] {
    for (const hub::LocalFile& file : chosen().files)
      if (file.path == "adapter_config.json")
        return Json::parse(file.made ? *file.made : text_of(file.source))["base_model_name_or_path"]
            .get<std::string>();
    return std::string();
  };
  config("org/base");
  EXPECT_EQ(sent(), "org/base");
  config("/cache/models--org--base/snapshots/abc");
  EXPECT_EQ(sent(), "org/base");
  config((scratch.folder() / "base").string());
  EXPECT_NE(refused_choice(Exit::config).find("which is no id of the hub; give it: --base-model org/name"),
            std::string::npos);
  args.base_model = "meta/llama";
  EXPECT_EQ(sent(), "meta/llama");
  EXPECT_EQ(text_of(folder() / "adapter_config.json").find("meta"), std::string::npos);
}

TEST_F(PushChoice, ARunThatHasNotFinishedIsRefused) {
  fs::remove(folder() / "adapter_model.safetensors");
  write("run.json", "{}");
  write("checkpoint-10/adapter_model.safetensors", "x");
  const std::string message = refused_choice(Exit::input);
  EXPECT_NE(message.find("its run has not finished"), std::string::npos) << message;
  EXPECT_NE(message.find("training.resume_from_checkpoint=auto"), std::string::npos) << message;
  args.patterns.include = {"checkpoint-10/"};
  EXPECT_EQ(files(), "checkpoint-10/adapter_model.safetensors ");
}

TEST_F(PushChoice, AFolderInWhichARunIsGoingOnIsRefused) {
  FolderLock lock;
  ASSERT_TRUE(lock.take(folder().string()));
  EXPECT_NE(refused_choice(Exit::config).find("a run is going on in"), std::string::npos);
}

TEST_F(PushChoice, WhatIsNoFolderIsRefused) {
  args.folder = "x";
  EXPECT_NE(
      error_of(Exit::config, [&] { hub::choose_files(scratch.folder() / "nowhere", HubKind::model, {}); })
          .find("is no folder"),
      std::string::npos);
  fs::remove_all(folder());
  fs::create_directories(folder());
  EXPECT_NE(refused_choice(Exit::input).find("has no files to send"), std::string::npos);
}

TEST_F(PushChoice, LinksToFilesAreSentAndPipesAreNot) {
  fs::create_symlink(folder() / "adapter_config.json", folder() / "link.json");
  fs::create_symlink(scratch.folder(), folder() / "folder");
  ASSERT_EQ(mkfifo((folder() / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(files(), kAdapter + "link.json ");
  EXPECT_EQ(left_out(), "folder/ (a link to a folder) pipe (no file) ");
}

TEST_F(PushChoice, NamesThatNoHubTakesAreRefused) {
  write("a\xff.txt", "x");
  EXPECT_NE(refused_choice(Exit::input).find("its name is not UTF-8"), std::string::npos);
}

}  // namespace
}  // namespace ft::test
