// Everything that can go wrong on the way: broken connections, wrong contents, refusals, full disks.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/hub/repository.h"
#include "engine/files/json.h"
#include "tests/app/hub/hub_place.h"

namespace ft::test {
namespace {

using PullFaults = HubPlace;

const std::string kModel = "model.safetensors";

TEST_F(PullFaults, AnUnfinishedFileIsContinued) {
  write_part(kModel, served(kModel).contents.substr(0, 100'000));
  EXPECT_EQ(pull().received, 200'010);
  const auto asked = server.asked_for(served(kModel).hash());
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].range, "bytes=100000-");
  EXPECT_EQ(text_of(blob(kModel)), served(kModel).contents);
  EXPECT_FALSE(fs::exists(part(kModel)));
}

TEST_F(PullFaults, AFileThatOnlyLacksItsNameIsNotFetched) {
  write_part(kModel, served(kModel).contents);
  pull();
  EXPECT_TRUE(server.asked_for(served(kModel).hash()).empty());
}

TEST_F(PullFaults, ACutConnectionIsMadeAgainWhereItBroke) {
  server.alter = [](const Asked& asked, Answer& answer) { answer.cut = asked.hub ? -1 : 70'000; };
  EXPECT_EQ(pull().received, 300'010);
  const auto asked = server.asked_for(served(kModel).hash());
  ASSERT_EQ(asked.size(), 5u);
  EXPECT_EQ(asked[1].range, "bytes=70000-");
  EXPECT_EQ(asked[4].range, "bytes=280000-");
  EXPECT_EQ(std::count(shown.begin(), shown.end(), '\n'), 2) << shown;  // one note for all of them
  EXPECT_NE(shown.find("model.safetensors: "), std::string::npos);
}

TEST_F(PullFaults, AServerWithoutRangesSendsAllAnew) {
  write_part(kModel, served(kModel).contents.substr(0, 100'000));
  server.alter = [](const Asked&, Answer& answer) { answer.ranges = false; };
  EXPECT_EQ(pull().received, 300'010);
  EXPECT_EQ(text_of(blob(kModel)), served(kModel).contents);
}

TEST_F(PullFaults, APartOfOtherContentsIsFetchedAnew) {
  write_part(kModel, std::string(100'000, 'x'));
  EXPECT_EQ(pull().received, 500'010);
  EXPECT_EQ(text_of(blob(kModel)), served(kModel).contents);
  EXPECT_NE(shown.find("the part on disk was damaged"), std::string::npos) << shown;
}

TEST_F(PullFaults, APartThatIsTooLongIsFetchedAnew) {
  write_part(kModel, std::string(400'000, 'x'));
  EXPECT_EQ(pull().received, 300'010);
}

TEST_F(PullFaults, WrongContentsGetNoName) {
  server.alter = [](const Asked& asked, Answer& answer) {
    if (!asked.hub) answer.body[7] ^= 1;
  };
  EXPECT_NE(refused(Exit::input).find("model.safetensors: its contents have another hash than"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(blob(kModel)));
  EXPECT_EQ(fs::file_size(part(kModel)), 0u);
}

TEST_F(PullFaults, WrongContentsOfASmallFileGetNoName) {
  server.alter = [](const Asked& asked, Answer& answer) {
    if (asked.path.ends_with("/config.json")) answer.body = "[]";
  };
  EXPECT_NE(refused(Exit::input).find("config.json: its contents have another hash"), std::string::npos);
}

TEST_F(PullFaults, WrongSizesAreRefused) {
  for (const bool chunked : {false, true})
    for (const std::int64_t size : {300'001, 299'999}) {
      server.alter = [&](const Asked& asked, Answer& answer) {
        if (asked.hub) return;
        answer.body.resize(static_cast<std::size_t>(size), 'x');
        answer.chunked = chunked;
        answer.ranges = !chunked;
      };
      const bool ends_early = chunked && size < 300'000;
      const std::string message = refused(ends_early ? Exit::peer_lost : Exit::input);
      EXPECT_NE(
          message.find(!chunked     ? str("the server has ", size, " bytes of it, and its size is 300000")
                       : ends_early ? "the connection ended after 299999 of 300000 bytes, 6 times in a row"
                                    : "the server sends more than its 300000 bytes"),
          std::string::npos)
          << message;
      fs::remove_all(access.cache);
    }
}

TEST_F(PullFaults, ARangeThatWasNotAskedForIsRefused) {
  write_part(kModel, served(kModel).contents.substr(0, 100'000));
  server.alter = [](const Asked& asked, Answer& answer) {
    if (asked.hub) return;
    answer.ranges = false;
    answer.status = 206;
    answer.fields["Content-Range"] = "bytes 5-299999/300000";
  };
  EXPECT_NE(refused(Exit::input).find("was asked for bytes from 100000 on"), std::string::npos);
}

TEST_F(PullFaults, ABusyServerIsAskedAgainWhenItSays) {
  int times = 0;
  server.alter = [&](const Asked& asked, Answer& answer) {
    if (!asked.path.starts_with("/api/") || ++times > 1) return;
    answer = {.status = 429, .fields = {{"Retry-After", "1"}}};
  };
  const auto begun = std::chrono::steady_clock::now();
  pull();
  EXPECT_GE(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(990));
  EXPECT_NE(shown.find("too many requests (429); trying again"), std::string::npos) << shown;
}

TEST_F(PullFaults, AWaitTooLongEndsThePull) {
  server.alter = [](const Asked&, Answer& answer) {
    answer = {.status = 429, .fields = {{"Retry-After", "7200"}}};
  };
  EXPECT_NE(refused(Exit::peer_lost).find("it asks to wait 2h00m"), std::string::npos);
}

TEST_F(PullFaults, AServerThatFailsIsLeftAfterSomeTries) {
  server.alter = [](const Asked&, Answer& answer) { answer = {.status = 503}; };
  EXPECT_NE(refused(Exit::peer_lost).find("the server is busy (503), 4 times in a row"), std::string::npos);
  EXPECT_EQ(server.asked().size(), 4u);
  EXPECT_EQ(std::count(shown.begin(), shown.end(), '\n'), 1) << shown;
}

TEST_F(PullFaults, NoServerAtAll) {
  access.endpoint = "http://127.0.0.1:1";
  EXPECT_NE(refused(Exit::peer_lost).find("http://127.0.0.1:1: Failed to connect"), std::string::npos);
}

TEST_F(PullFaults, ASilentServerIsLeftAndAskedAgain) {
  limits.silent_seconds = 1;
  std::atomic<int> times = 0;
  server.alter = [&](const Asked& asked, Answer& answer) {
    if (!asked.hub && ++times == 1) answer.pause = 3000;
  };
  pull();
  EXPECT_EQ(times, 2);
}

TEST_F(PullFaults, AnAddressOfTheHubThatHasExpiredIsAskedForAgain) {
  std::atomic<int> times = 0;
  server.alter = [&](const Asked& asked, Answer& answer) {
    if (!asked.hub && ++times == 1) answer = {.status = 403};
  };
  pull();
  EXPECT_EQ(server.asked_for("/" + kModel).size(), 2u);
}

TEST_F(PullFaults, AMissingRepository) {
  name.id = "org/absent";
  EXPECT_EQ(refused(Exit::input), access.endpoint +
                                      "/org/absent: the hub has no such model, or it is private; check the "
                                      "name, or log in with hf auth login, or put a token into HF_TOKEN");
  access.token = "hf_secretsecret";
  access.token_source = "HF_TOKEN";
  EXPECT_NE(refused(Exit::input).find("use a token that may read it (now: HF_TOKEN)"), std::string::npos);
}

TEST_F(PullFaults, ADataSetThatWasTakenForAModel) {
  server.repositories["datasets/org/rows"].files["train.jsonl"] = {"{}\n"};
  name.id = "org/rows";
  EXPECT_EQ(refused(Exit::input), "org/rows is a data set: ft pull --dataset org/rows");
  name = {HubKind::dataset, "org/tiny"};
  EXPECT_EQ(refused(Exit::input), "org/tiny is a model: ft pull org/tiny");
}

TEST_F(PullFaults, AMissingRevision) {
  name.revision = "v2";
  EXPECT_NE(refused(Exit::input).find("/org/tiny: has no revision v2"), std::string::npos);
}

TEST_F(PullFaults, AGatedRepository) {
  server.alter = [](const Asked& asked, Answer& answer) {
    if (!asked.path.starts_with("/api/")) answer = refusal(403, "GatedRepo", "Access to model is restricted");
  };
  EXPECT_EQ(refused(Exit::mismatch),
            "org/tiny is gated: accept its conditions at " + access.endpoint +
                "/org/tiny, and log in with hf auth login, or put a token into HF_TOKEN");
  access.token = "hf_secretsecret";
  access.token_source = "/home/me/token";
  EXPECT_NE(refused(Exit::mismatch).find("with the account of the token in /home/me/token"),
            std::string::npos);
}

TEST_F(PullFaults, ATokenThatTheHubRefuses) {
  server.token = "hf_right";
  access.token = "hf_wrongwrong";
  access.token_source = "HF_TOKEN";
  EXPECT_EQ(refused(Exit::mismatch), "the hub refuses the token in HF_TOKEN; make another one at " +
                                         access.endpoint + "/settings/tokens");
}

TEST_F(PullFaults, OtherRefusalsSayWhatTheServerSaid) {
  server.alter = [](const Asked&, Answer& answer) { answer = refusal(451, "", "not\x1b[31m here"); };
  EXPECT_NE(refused(Exit::input).find("answers with status 451: not\\x1b[31m here"), std::string::npos);
}

TEST_F(PullFaults, TheDiskIsAskedBeforeTheFirstFile) {
  server.alter = [&](const Asked& asked, Answer& answer) {
    if (!asked.path.starts_with("/api/")) return;
    Json json = Json::parse(answer.body);
    for (Json& entry : json["siblings"])
      if (entry["rfilename"] == kModel) entry["lfs"]["size"] = std::int64_t{1} << 49;
    answer.body = json.dump();
  };
  EXPECT_NE(refused(Exit::storage).find("org/tiny: 563 TB are to be fetched, and "), std::string::npos);
  EXPECT_EQ(server.asked().size(), 1u);
}

TEST_F(PullFaults, SizesThatNoDiskHasAreNotAdded) {
  server.alter = [&](const Asked& asked, Answer& answer) {
    if (!asked.path.starts_with("/api/")) return;
    Json json = Json::parse(answer.body);
    for (int i = 0; i < 9000; ++i)
      json["siblings"].push_back({{"rfilename", str("model-", i, ".safetensors")},
                                  {"size", std::int64_t{1} << 50},
                                  {"blobId", std::string(40, 'e')}});
    answer.body = json.dump();
  };
  EXPECT_EQ(refused(Exit::input), "org/tiny: its files have more than 1,126 TB");
}

TEST_F(PullFaults, AnotherCommitThanThatAskedForIsRefused) {
  name.revision = std::string(40, 'a');
  server.alter = [&](const Asked& asked, Answer& answer) {
    if (asked.path.starts_with("/api/"))
      answer.body = R"({"sha": ")" + std::string(40, 'b') + R"(", "siblings": []})";
  };
  EXPECT_NE(refused(Exit::input).find("lists another commit"), std::string::npos);
}

TEST_F(PullFaults, AHostileListingReachesNothing) {
  server.alter = [&](const Asked& asked, Answer& answer) {
    if (!asked.path.starts_with("/api/")) return;
    Json json = Json::parse(answer.body);
    json["siblings"][0]["rfilename"] = "../../../escaped.json";
    answer.body = json.dump();
  };
  EXPECT_NE(refused(Exit::input).find("a name must stay in its folder"), std::string::npos);
  EXPECT_FALSE(fs::exists(access.cache));
}

TEST_F(PullFaults, AnEndlessListingIsCutOff) {
  server.alter = [&](const Asked& asked, Answer& answer) {
    if (asked.path.starts_with("/api/")) answer.body.assign((std::size_t{64} << 20) + 1, ' ');
  };
  EXPECT_NE(refused(Exit::input).find("the answer is larger than"), std::string::npos);
}

TEST_F(PullFaults, AnEndlessRefusalIsCutOff) {
  server.alter = [&](const Asked&, Answer& answer) {
    answer = {.status = 404, .body = std::string(std::size_t{2} << 20, ' ')};
  };
  EXPECT_NE(refused(Exit::input).find("the answer is larger than"), std::string::npos);
}

TEST_F(PullFaults, AFullDiskLeavesAPartThatIsContinued) {
  struct rlimit usual {};
  getrlimit(RLIMIT_FSIZE, &usual);
  const struct rlimit small { 100'000, usual.rlim_max };
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string message = error_of(Exit::storage, [&] { pull(); });
  setrlimit(RLIMIT_FSIZE, &usual);
  std::signal(SIGXFSZ, before);
  EXPECT_NE(message.find("cannot be written: File too large"), std::string::npos) << message;
  EXPECT_EQ(fs::file_size(part(kModel)), 100'000u);
  EXPECT_EQ(pull().received, 200'000);
}

TEST_F(PullFaults, APageThatIsNoHub) {
  server.alter = [](const Asked&, Answer& answer) { answer.body = "<html>Please log in</html>"; };
  EXPECT_NE(refused(Exit::input).find("not JSON"), std::string::npos);
}

TEST_F(PullFaults, AFolderThatCannotBeWritten) {
  scratch.write("hub", "a file");
  EXPECT_NE(refused(Exit::storage).find("cannot be made"), std::string::npos);
}

TEST_F(PullFaults, TwoPullsAtOnceFetchEachFileOnce) {
  server.alter = [](const Asked& asked, Answer& answer) { answer.pause = asked.hub ? 0 : 10; };
  std::int64_t received[2];
  {
    std::vector<std::jthread> both;
    for (std::int64_t& r : received)
      both.emplace_back([&] {
        Screen::Options options;
        options.write = [](const std::string&) {};
        Screen screen(options);
        r = hub::pull(access, name, {}, screen, limits).received;
      });
  }
  EXPECT_EQ(received[0] + received[1], 300'010);
  EXPECT_EQ(server.asked_for(served(kModel).hash()).size(), 1u);
  EXPECT_EQ(text_of(*find_in_hub_cache(access.cache, name) / kModel), served(kModel).contents);
}

}  // namespace
}  // namespace ft::test
