// Sending to a hub: new and existing repositories, small and large files, only what is missing.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/files/hash.h"
#include "engine/files/json.h"
#include "tests/app/push/push_place.h"

namespace ft::test {
namespace {

using Push = PushPlace;

TEST_F(Push, MakesTheRepositoryAndCommitsAllAtOnce) {
  const hub::Pushed pushed = push();
  EXPECT_EQ(pushed.files, 3);
  EXPECT_EQ(pushed.sent, 300'000);
  ASSERT_EQ(server.commits.size(), 1u);
  EXPECT_EQ(server.commits[0].message, "Upload");
  EXPECT_EQ(server.commits[0].revision, "main");
  EXPECT_EQ(pushed.address, server.endpoint() + "/org/tiny/commit/" + std::string(40, '1'));
  EXPECT_EQ(remote().at("adapter_model.safetensors").contents, weights);
  EXPECT_TRUE(remote().at("adapter_model.safetensors").large);
  EXPECT_EQ(remote().at("adapter_config.json").contents, text_of(folder() / "adapter_config.json"));
  EXPECT_TRUE(remote().at("README.md").contents.starts_with("---\nbase_model: \"org/base\"\n"));
  EXPECT_FALSE(server.repositories["models/org/tiny"].is_private);
  EXPECT_FALSE(fs::exists(folder() / "README.md"));  // the folder stays as it is
}

TEST_F(Push, ShowsTheFilesBeforeItSendsThem) {
  write("checkpoint-5/model.safetensors", "x");
  std::string before;
  server.alter = [&](const Asked& asked, Answer&) {
    if (asked.method != "GET" && before.empty()) before = shown;
  };
  push();
  EXPECT_TRUE(before.starts_with("sending  3 files, 300 kB -> " + server.endpoint() + "/org/tiny (new)\n"))
      << before;
  for (const char* line : {"  adapter_model.safetensors    300 kB\n", "  README.md ", "  a card, made now\n",
                           "not sent checkpoint-5/ (a checkpoint)\n"})
    EXPECT_NE(before.find(line), std::string::npos) << line << before;
}

TEST_F(Push, SendsNothingTwice) {
  push();
  const hub::Pushed again = push();
  EXPECT_EQ(again.files, 0);
  EXPECT_EQ(again.sent, 0);
  EXPECT_EQ(server.commits.size(), 1u);
  EXPECT_EQ(requests("PUT", "/upload/"), 1);
}

TEST_F(Push, CommitsOnlyFilesThatHaveChanged) {
  push();
  write("adapter_config.json", R"({"base_model_name_or_path": "org/base", "r": 16})");
  EXPECT_EQ(push().files, 2);  // and the card, which tells the rank
  EXPECT_EQ(server.commits[1].paths, (std::vector<std::string>{"README.md", "adapter_config.json"}));
  EXPECT_EQ(requests("PUT", "/upload/"), 1);
}

TEST_F(Push, AFileThatTheStoreHasIsOnlyNamed) {
  server.store[sha256(weights)] = weights;
  EXPECT_EQ(push().sent, 0);
  EXPECT_EQ(requests("PUT", ""), 0);
  EXPECT_EQ(remote().at("adapter_model.safetensors").contents, weights);
}

TEST_F(Push, LargeFilesGoInParts) {
  server.part_bytes = 70'000;
  EXPECT_EQ(push().sent, 300'000);
  EXPECT_EQ(requests("PUT", "/part/"), 5);
  EXPECT_EQ(requests("POST", "/complete/"), 1);
  EXPECT_EQ(requests("POST", "/verify/"), 1);
  EXPECT_EQ(remote().at("adapter_model.safetensors").contents, weights);
}

TEST_F(Push, TwoFilesWithTheSameContentsAreSentOnce) {
  write("second.safetensors", weights);
  EXPECT_EQ(push().sent, 300'000);
  EXPECT_EQ(remote().at("second.safetensors").contents, weights);
}

TEST_F(Push, EmptyFilesGoIntoTheCommit) {
  write("empty.safetensors", "");
  push();
  EXPECT_EQ(remote().at("empty.safetensors").contents, "");
  EXPECT_FALSE(remote().at("empty.safetensors").large);
}

TEST_F(Push, FilesInFoldersAndStrangeNames) {
  write("a folder/50%#?\u00fc.json", "{}");
  push();
  EXPECT_TRUE(remote().contains("a folder/50%#?\u00fc.json"));
}

TEST_F(Push, FilesThatTheRepositoryIgnoresAreNamed) {
  write("ignored.txt", "x");
  push();
  EXPECT_FALSE(remote().contains("ignored.txt"));
  EXPECT_NE(shown.find("not sent ignored.txt (the repository's .gitignore)\n"), std::string::npos) << shown;
}

TEST_F(Push, ManyFilesAreAskedForInBatches) {
  for (int i = 0; i < 600; ++i) write(str("rows/", i, ".json"), "{}");
  EXPECT_EQ(push().files, 603);
  EXPECT_NE(shown.find("  and 553 files more\n"), std::string::npos) << shown;
  EXPECT_EQ(requests("POST", "/preupload/"), 3);
}

TEST_F(Push, ADataSetGetsNoCardOfAModel) {
  sending.name = {HubKind::dataset, "org/rows"};
  fs::remove_all(folder());
  write("train.jsonl", "{}\n");
  push();
  EXPECT_EQ(remote("datasets/org/rows").size(), 1u);
  EXPECT_EQ(remote("datasets/org/rows").at("train.jsonl").contents, "{}\n");
}

TEST_F(Push, ACardOfTheUsersOwnIsSent) {
  write("README.md", "# Mine\n");
  push();
  EXPECT_EQ(remote().at("README.md").contents, "# Mine\n");
}

TEST_F(Push, PrivateRepositories) {
  sending.is_private = true;
  push();
  EXPECT_TRUE(server.repositories["models/org/tiny"].is_private);
  EXPECT_EQ(push().files, 0);
}

TEST_F(Push, APublicRepositoryIsNotTakenForAPrivateOne) {
  server.repositories["models/org/tiny"];
  sending.is_private = true;
  EXPECT_NE(refused(Exit::config).find("is public; nothing was sent"), std::string::npos);
  EXPECT_EQ(requests("POST", ""), 0);
}

TEST_F(Push, ANewBranchIsMade) {
  sending.name.revision = "v2";
  push();
  EXPECT_EQ(server.commits.at(0).revision, "v2");
  EXPECT_EQ(requests("POST", "/branch/v2"), 1);
  push();
  EXPECT_EQ(requests("POST", "/branch/v2"), 1);
}

TEST_F(Push, APullRequestProposesTheFiles) {
  server.repositories["models/org/tiny"];
  sending.create_pr = true;
  EXPECT_EQ(push().address, server.endpoint() + "/models/org/tiny/discussions/1");
  ASSERT_EQ(server.commits.size(), 1u);
  EXPECT_TRUE(server.commits[0].pull_request);
  EXPECT_TRUE(remote().empty());
  for (const Asked& asked : server.asked_for("/preupload/main"))
    EXPECT_TRUE(asked.target.ends_with("?create_pr=1"));
}

TEST_F(Push, TheTokenGoesToTheHubOnly) {
  server.part_bytes = 100'000;
  push();
  int elsewhere = 0;
  for (const Asked& asked : server.asked()) {
    EXPECT_EQ(asked.authorization, asked.hub ? "Bearer hf_secretsecret" : "") << asked.path;
    elsewhere += asked.hub ? 0 : 1;
  }
  EXPECT_EQ(elsewhere, 3);
  EXPECT_EQ(shown.find("secret"), std::string::npos);
}

TEST_F(Push, FieldsOfAnOrderAreSent) {
  server.alter = [](const Asked& asked, Answer& answer) {
    if (!asked.path.ends_with("/batch")) return;
    Json json = Json::parse(answer.body);
    json["objects"][0]["actions"]["upload"]["header"] = {{"Authorization", "Basic abc"}};
    answer.body = json.dump();
  };
  push();
  for (const Asked& asked : server.asked()) EXPECT_TRUE(asked.hub || asked.authorization == "Basic abc");
}

TEST_F(Push, ATerminalHasABar) {
  server.alter = [](const Asked& asked, Answer& answer) {
    if (asked.method == "PUT") answer = {.body = "slow", .pause = 400};
  };
  Screen::Options options;
  options.live = true;
  options.width = [] { return 100; };
  options.write = [this](const std::string& text) { shown += text; };
  Screen screen(options);
  hub::push(access, sending, chosen(), screen, limits);
  EXPECT_NE(shown.find("\rorg/tiny  ="), std::string::npos) << shown;
}

}  // namespace
}  // namespace ft::test
