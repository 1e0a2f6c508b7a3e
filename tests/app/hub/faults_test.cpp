// Everything that can go wrong on the way: broken connections, wrong contents, busy servers, full disks.
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
