// ft push as a program: a result of ft train, killed and interrupted; and ft without libcurl.
#include <gtest/gtest.h>

#include <random>

#include "engine/core/environment.h"
#include "tests/app/hub/hub_server.h"
#include "tests/life/program.h"

namespace ft::test {
namespace {

// A hub, and a folder with an adapter in two files.
struct PushLife : testing::Test {
  PushLife() {
    set_variable("HF_HUB_CACHE", (w / "hub").string());
    set_variable("HF_ENDPOINT", server.endpoint());
    set_variable("HF_TOKEN", "hf_secretsecret");
    server.token = "hf_secretsecret";
    std::mt19937 random(1);
    for (const char* name : {"one", "two"}) {
      std::string bytes(2'000'000, '\0');
      for (char& c : bytes) c = static_cast<char>(random());
      fs::create_directories(w / "result");
      std::ofstream(w / (std::string("result/") + name + ".safetensors"), std::ios::binary) << bytes;
    }
    server.part_bytes = 100'000;
  }
  std::map<std::string, ServedFile>& remote() { return server.repositories["models/org/tiny"].files; }
  std::int64_t parts_sent() const {
    std::int64_t count = 0;
    for (const Asked& asked : server.asked()) count += asked.method == "PUT" ? 1 : 0;
    return count;
  }
  void slowly() {
    server.alter = [](const Asked& asked, Answer&) {
      if (asked.method == "PUT") std::this_thread::sleep_for(std::chrono::milliseconds(20));
    };
  }
  void expect_complete() {
    for (const char* name : {"one.safetensors", "two.safetensors"})
      EXPECT_EQ(remote().at(name).contents, contents(w / (std::string("result/") + name)));
    EXPECT_EQ(server.commits.size(), 1u);
  }

  HubServer server;
  Workplace w{"llama"};
};

TEST_F(PushLife, AResultOfTrainingIsSentWithACard) {
  ASSERT_EQ(w.train({"lora.r=4", "training.max_steps=2", "checkpointing.save_strategy=steps",
                     "checkpointing.save_steps=1"}),
            0)
      << w.says();
  ASSERT_EQ(w.run({"push", "out", "org/tiny", "--dry-run"}), 2) << w.says();
  EXPECT_NE(w.says().find("names its base model, which is no id of the hub; give it: --base-model org/name"),
            std::string::npos)
      << w.says();
  ASSERT_EQ(w.run({"push", "out", "org/tiny", "--base-model", "org/base", "--dry-run"}), 0) << w.says();
  EXPECT_TRUE(contents(w / "stdout").starts_with("would send ")) << contents(w / "stdout");
  EXPECT_TRUE(server.asked().empty());
  ASSERT_EQ(w.run({"push", "out", "org/tiny", "--base-model", "org/base", "--private"}), 0) << w.says();
  const std::string said = contents(w / "stdout");
  EXPECT_TRUE(said.starts_with("pushed   org/tiny, ")) << said;
  EXPECT_NE(said.find(" -> " + server.endpoint() + "/org/tiny/commit/"), std::string::npos) << said;
  EXPECT_NE(said.find("\nnext     ft pull org/tiny\n"), std::string::npos) << said;
  EXPECT_NE(w.says().find("not sent "), std::string::npos) << w.says();
  EXPECT_EQ((said + w.says()).find("secret"), std::string::npos);
  EXPECT_EQ(remote().at("adapter_model.safetensors").contents, contents(w / "out/adapter_model.safetensors"));
  EXPECT_NE(remote().at("README.md").contents.find("base_model: \"org/base\""), std::string::npos);
  EXPECT_EQ(Json::parse(remote().at("adapter_config.json").contents)["base_model_name_or_path"], "org/base");
  for (const auto& [path, file] : remote()) {
    EXPECT_EQ(path.find("checkpoint-"), std::string::npos) << path;
    EXPECT_EQ(file.contents.find(w.operator/("").string()), std::string::npos) << path;
  }
  ASSERT_EQ(w.run({"pull", "org/tiny"}), 0) << w.says();  // and back
}

TEST_F(PushLife, KilledAgainAndAgainItEndsWithOneCommit) {
  slowly();
  std::mt19937 random(7);
  int kills = 0;
  for (int code = -1; code != 0;) {
    const pid_t pid = w.start({"push", "result", "org/tiny"});
    std::this_thread::sleep_for(
        std::chrono::milliseconds(std::uniform_int_distribution<int>(100, 700)(random)));
    if (kills < 6) kill(pid, SIGKILL);
    code = Workplace::finish(pid);
    ASSERT_TRUE(code == 0 || code == 128 + SIGKILL) << w.says();
    kills += code != 0 ? 1 : 0;
  }
  EXPECT_GT(kills, 1);
  expect_complete();
}

TEST_F(PushLife, CtrlCCommitsNothingAndTheNextOneSendsTheRest) {
  server.alter = [](const Asked& asked, Answer&) {  // one file is slow
    static std::string first;
    const std::string hash = asked.path.substr(0, 30);
    if (asked.method != "PUT") return;
    if (first.empty()) first = hash;
    std::this_thread::sleep_for(std::chrono::milliseconds(hash == first ? 5 : 200));
  };
  const pid_t pid = w.start({"push", "result", "org/tiny"});
  ASSERT_TRUE(comes_to_hold(60, [&] { return parts_sent() > 21; })) << w.says();
  kill(pid, SIGINT);
  EXPECT_EQ(Workplace::finish(pid), 75);
  EXPECT_NE(
      w.says().find("stopped by Ctrl-C; nothing is committed, and the same command sends only the rest\n"),
      std::string::npos)
      << w.says();
  EXPECT_TRUE(server.commits.empty());
  EXPECT_EQ(server.store.size(), 1u);
  const std::int64_t before = parts_sent();
  server.alter = nullptr;
  ASSERT_EQ(w.run({"push", "result", "org/tiny"}), 0) << w.says();
  EXPECT_EQ(parts_sent(), before + 20);  // the other file
  expect_complete();
}

// Stands in the library's place a file that is none.
TEST_F(PushLife, WithoutLibcurlFtStartsAndSaysWhatToInstall) {
  fs::create_directories(w / "lib");
  for (const char* name : {"libcurl.so.4", "libcurl-gnutls.so.4"})
    std::ofstream(w / "lib" / name) << "no library";
  const std::string before = variable("LD_LIBRARY_PATH");
  set_variable("LD_LIBRARY_PATH", (w / "lib").string());
  EXPECT_EQ(w.run({"--version"}), 0) << w.says();
  EXPECT_EQ(w.run({"push", "result", "org/tiny"}), 10);
  EXPECT_NE(w.says().find("libcurl.so.4 is not found here; install it: apt-get install libcurl4"),
            std::string::npos)
      << w.says();
  EXPECT_EQ(w.run({"pull", "org/tiny"}), 10);
  EXPECT_EQ(w.run({"doctor", "--json"}), 0);
  const std::string doctor = contents(w / "stdout");
  set_variable("LD_LIBRARY_PATH", before);
  EXPECT_NE(doctor.find("ft pull and ft push do not work here"), std::string::npos) << doctor;
  EXPECT_EQ(w.run({"doctor", "--json"}), 0);
  EXPECT_NE(contents(w / "stdout").find("libcurl "), std::string::npos);
}

}  // namespace
}  // namespace ft::test
