// Refusals, busy servers, broken connections, wrong answers, files that change.
#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>

#include "engine/files/hash.h"
#include "engine/files/json.h"
#include "tests/app/push/push_place.h"

namespace ft::test {
namespace {

using PushFaults = PushPlace;

// Alters the first answer to requests of a method whose path holds `part`.
auto first_answer(HubServer& server, const std::string& method, const std::string& part,
                  const Answer& instead) {
  const auto times = std::make_shared<std::atomic<int>>(0);
  server.alter = [=](const Asked& asked, Answer& answer) {
    if (asked.method == method && asked.path.find(part) != asked.path.npos && ++*times == 1) answer = instead;
  };
  return times;
}

TEST_F(PushFaults, WithoutATokenNothingIsAsked) {
  access.token = "";
  EXPECT_NE(refused(Exit::mismatch).find("no token; log in with hf auth login"), std::string::npos);
  EXPECT_TRUE(server.asked().empty());
}

TEST_F(PushFaults, AWrongTokenIsNamedByItsSource) {
  access.token = "hf_othersecret";
  EXPECT_NE(refused(Exit::mismatch).find("the hub refuses the token in HF_TOKEN"), std::string::npos);
}

TEST_F(PushFaults, ATokenThatMayNotWriteIsNamed) {
  server.read_only = true;
  const std::string message = refused(Exit::mismatch);
  EXPECT_NE(
      message.find("org/tiny: the token in HF_TOKEN may not write here (You don't have the rights); make"),
      std::string::npos)
      << message;
}

TEST_F(PushFaults, ARepositoryThatAnotherProcessHasJustMadeIsUsed) {
  std::atomic<int> looks = 0;
  server.repositories["models/org/tiny"];
  server.alter = [&](const Asked& asked, Answer& answer) {
    if (asked.method == "GET" && ++looks == 1) answer = refusal(404, "RepoNotFound");
  };
  EXPECT_EQ(push().files, 3);
}

TEST_F(PushFaults, AnotherRepositoryBeingMadeIsWaitedFor) {
  const auto times =
      first_answer(server, "POST", "/create",
                   refusal(409, "", "Cannot create repo: another conflicting operation is in progress"));
  server.repositories.erase("models/org/tiny");
  auto alter = server.alter;
  server.alter = [&, alter](const Asked& asked, Answer& answer) {
    if (asked.method == "GET" && *times == 1) answer = refusal(404, "RepoNotFound");
    alter(asked, answer);
  };
  EXPECT_EQ(push().files, 3);
  EXPECT_EQ(*times, 2);
}

TEST_F(PushFaults, AMissingRevisionOfAPullRequestIsNamed) {
  server.repositories["models/org/tiny"].revisions.erase("main");
  EXPECT_NE(refused(Exit::input).find("has no revision main"), std::string::npos);
}

TEST_F(PushFaults, ABusyServerIsAskedAgainWhenItSays) {
  first_answer(server, "POST", "/preupload/", {.status = 429, .fields = {{"Retry-After", "1"}}});
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(push().files, 3);
  EXPECT_GE(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(990));
  EXPECT_NE(shown.find("too many requests (429); trying again"), std::string::npos) << shown;
}

TEST_F(PushFaults, AServerThatFailsIsLeftAfterSomeTries) {
  server.alter = [](const Asked& asked, Answer& answer) {
    if (asked.path.ends_with("/batch")) answer = {.status = 503};
  };
  EXPECT_NE(refused(Exit::peer_lost).find("the server is busy (503), 4 times in a row"), std::string::npos);
}

TEST_F(PushFaults, ACutUploadIsMadeAgain) {
  std::atomic<int> times = 0;
  server.alter = [&](const Asked& asked, Answer& answer) {
    if (asked.method != "PUT" || ++times > 1) return;
    server.store.clear();  // the file has not arrived
    answer = {.body = "cut", .cut = 0};
  };
  EXPECT_EQ(push().files, 3);
  EXPECT_EQ(times, 2);
  EXPECT_EQ(remote().at("adapter_model.safetensors").contents, weights);
  EXPECT_NE(shown.find("adapter_model.safetensors: "), std::string::npos) << shown;
  EXPECT_NE(shown.find("; trying again"), std::string::npos) << shown;
}

TEST_F(PushFaults, ABrokenPartIsSentAgainAlone) {
  server.part_bytes = 100'000;
  first_answer(server, "PUT", "/2", {.status = 500});
  EXPECT_EQ(push().files, 3);
  EXPECT_EQ(requests("PUT", "/part/"), 4);
  EXPECT_EQ(remote().at("adapter_model.safetensors").contents, weights);
}

TEST_F(PushFaults, AnAddressThatHasExpiredIsAskedForAgain) {
  for (const std::int64_t parts : {0, 100'000}) {
    server.part_bytes = parts;
    server.store.clear();
    first_answer(server, "PUT", "/", {.status = 403});
    const std::int64_t asked = requests("POST", "/batch");
    push();
    EXPECT_EQ(requests("POST", "/batch"), asked + 2);
    server.repositories.clear();
  }
  EXPECT_EQ(server.commits.size(), 2u);
}

TEST_F(PushFaults, AFileThatArrivedWithAnotherHashIsRefused) {
  server.alter = [this](const Asked& asked, Answer&) {
    if (asked.method == "PUT") server.store[sha256(weights)] = "other bytes";
  };
  EXPECT_NE(refused(Exit::input).find("the file has another hash"), std::string::npos);
}

TEST_F(PushFaults, OrdersForOtherFilesAreRefused) {
  server.alter = [](const Asked& asked, Answer& answer) {
    if (!asked.path.ends_with("/batch")) return;
    Json json = Json::parse(answer.body);
    json["objects"][0]["oid"] = std::string(64, 'e');
    answer.body = json.dump();
  };
  EXPECT_NE(refused(Exit::input).find("oid must be a hash that was asked for"), std::string::npos);
  EXPECT_EQ(requests("PUT", ""), 0);
}

TEST_F(PushFaults, WrongPartsAreRefused) {
  server.part_bytes = 100'000;
  for (const auto& [key, value] : {std::pair{"chunk_size", "0"},
                                   {"chunk_size", "99999"},
                                   {"chunk_size", "9999999999999999999"},
                                   {"4", "http://127.0.0.1/part"},
                                   {"3", "file:///etc/passwd"}}) {
    server.alter = [key = key, value = value](const Asked& asked, Answer& answer) {
      if (!asked.path.ends_with("/batch")) return;
      Json json = Json::parse(answer.body);
      json["objects"][0]["actions"]["upload"]["header"][key] = value;
      answer.body = json.dump();
    };
    refused(Exit::input);
    EXPECT_EQ(requests("PUT", ""), 0) << key << value;
  }
}

TEST_F(PushFaults, AnErrorOfTheStoreIsShown) {
  server.alter = [](const Asked& asked, Answer& answer) {
    if (asked.path.ends_with("/batch"))
      answer.body =
          R"({"objects": [{"oid": "x", "size": 1, "error": {"code": 422, "message": "quota exceeded"}}]})";
  };
  EXPECT_NE(refused(Exit::input).find("the hub refuses a file: quota exceeded"), std::string::npos);
}

TEST_F(PushFaults, AnswersThatAreNoHubsAreRefused) {
  for (const std::string part : {"/preupload/", "/batch", "/models/org/tiny"})
    for (const std::string body : {"<html>", "[]", R"({"files": [], "objects": []})", R"({"files": 1})"}) {
      if (part == "/models/org/tiny" && body.starts_with("{")) continue;
      server.repositories["models/org/tiny"];
      server.alter = [&](const Asked& asked, Answer& answer) {
        if (asked.path.find(part) != asked.path.npos && asked.path.find("/revision/") == asked.path.npos)
          answer.body = body;
      };
      refused(Exit::input);
    }
}

TEST_F(PushFaults, ACommitWhoseAnswerGotLostIsNotMadeTwice) {
  first_answer(server, "POST", "/commit/", {.body = "cut", .cut = 0});
  const hub::Pushed pushed = push();
  EXPECT_EQ(pushed.files, 3);
  EXPECT_EQ(server.commits.size(), 1u);
}

TEST_F(PushFaults, ACommitThatSomebodyElsesPrecedesIsMadeAgain) {
  const auto times = std::make_shared<int>(0);
  server.repositories["models/org/tiny"];
  server.alter = [this, times](const Asked& asked, Answer& answer) {
    if (asked.path.find("/commit/") == asked.path.npos || ++*times > 1) return;
    server.commits.clear();
    server.repositories["models/org/tiny"].files.clear();
    answer = {.status = 412, .body = R"({"error": "A commit has happened since"})"};
  };
  EXPECT_EQ(push().files, 3);
  EXPECT_EQ(server.commits.size(), 1u);
}

TEST_F(PushFaults, APullRequestIsNotMadeTwice) {
  server.repositories["models/org/tiny"];
  sending.create_pr = true;
  first_answer(server, "POST", "/commit/", {.body = "cut", .cut = 0});
  const std::string message = error_of(Exit::peer_lost, [&] { push(); });
  EXPECT_NE(message.find("the pull request may have been made all the same"), std::string::npos) << message;
  EXPECT_EQ(server.commits.size(), 1u);
}

TEST_F(PushFaults, AFileThatChangesMeanwhileIsRefused) {
  server.alter = [this](const Asked& asked, Answer&) {
    if (asked.path.ends_with("/batch")) write("adapter_model.safetensors", some_bytes(300'000, 2));
  };
  EXPECT_NE(refused(Exit::input).find("adapter_model.safetensors: has changed since this push began"),
            std::string::npos);
}

TEST_F(PushFaults, NoRedirectChangesSomethingElsewhere) {
  first_answer(server, "POST", "/create", {.status = 302, .fields = {{"Location", "/elsewhere"}}});
  EXPECT_NE(refused(Exit::input).find("redirects a request that changes something"), std::string::npos);
}

TEST_F(PushFaults, ARenamedRepositoryIsFollowed) {
  server.repositories["models/org/new"];
  server.repositories["models/org/tiny"];
  server.alter = [](const Asked& asked, Answer& answer) {
    const std::string old = "/api/models/org/tiny/";
    if (asked.method == "POST" && asked.path.starts_with(old))
      answer = {.status = 307,
                .fields = {{"Location", "/api/models/org/new/" + asked.path.substr(old.size())}}};
  };
  EXPECT_EQ(push().files, 3);
  EXPECT_EQ(remote("models/org/new").at("adapter_model.safetensors").contents, weights);
}

TEST_F(PushFaults, NoServerAtAll) {
  access.endpoint = "http://127.0.0.1:1";
  EXPECT_NE(refused(Exit::peer_lost).find("http://127.0.0.1:1: Failed to connect"), std::string::npos);
}

}  // namespace
}  // namespace ft::test
