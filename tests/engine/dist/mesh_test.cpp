#include "engine/dist/mesh.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <thread>

#include "engine/core/error.h"
#include "engine/dist/exchange.h"

namespace ft {
namespace {

Meeting meeting(int rank, int size, Address master, double seconds = 20) {
  return {.rank = rank,
          .size = size,
          .master = std::move(master),
          .listener = {},
          .job = "test",
          .seconds = seconds};
}

// All ranks meet; each says its number to each.
void meet_and_talk(int size, Socket listener, const Address& at) {
  std::vector<std::thread> threads;
  std::vector<std::string> failed(static_cast<std::size_t>(size));
  for (int r = 0; r < size; ++r)
    threads.emplace_back([&, r] {
      try {
        Meeting m = meeting(r, size, at);
        if (r == 0) m.listener = std::move(listener);
        Exchange exchange(meet(std::move(m)), 10);
        std::vector<int> in(static_cast<std::size_t>(size), -1);
        std::vector<Parcel> parcels;
        for (int& from : in)
          parcels.push_back(
              {.out = std::as_bytes(std::span(&r, 1)), .in = std::as_writable_bytes(std::span(&from, 1))});
        exchange.run(Collective::all_gather, parcels);
        for (int p = 0; p < size; ++p) EXPECT_EQ(in[static_cast<std::size_t>(p)], p == r ? -1 : p);
      } catch (const std::exception& e) {
        failed[static_cast<std::size_t>(r)] = e.what();
      }
    });
  for (auto& t : threads) t.join();
  for (const auto& f : failed) EXPECT_EQ(f, "");
}

TEST(Meeting, EveryRankReachesEveryOther) {
  for (const int size : {1, 2, 3, 5, 8}) {
    Socket listener = listen_at({"127.0.0.1", 0});
    const Address at = local_address(listener);
    meet_and_talk(size, std::move(listener), at);
  }
}

TEST(Meeting, StrangersAtThePortDisturbNobody) {
  Socket listener = listen_at({"127.0.0.1", 0});
  const Address at = local_address(listener);
  const auto soon = Clock::now() + std::chrono::seconds(10);
  std::vector<Socket> strangers;
  for (int i = 0; i < 20; ++i) strangers.push_back(connect_to(at, soon, "the listener"));  // some stay silent
  for (std::size_t i = 0; i < 10; ++i) {
    const std::string noise(i == 0 ? 1 : i == 1 ? 8 : 4000, i == 2 ? '\0' : 'f');
    send_all(strangers[i], noise.data(), noise.size(), soon);
  }
  const std::string almost = std::string("ft ranks") + std::string(400, '\x7f');
  send_all(strangers[10], almost.data(), almost.size(), soon);
  meet_and_talk(3, std::move(listener), at);
}

TEST(Meeting, WhoDoesNotComeIsNamed) {
  Socket listener = listen_at({"127.0.0.1", 0});
  Meeting m = meeting(0, 3, local_address(listener), 0.3);
  m.listener = std::move(listener);
  try {
    meet(std::move(m));
    FAIL();
  } catch (const UserError& e) {
    EXPECT_EQ(e.code, Exit::hang);
    EXPECT_NE(std::string(e.what()).find("did not come: 1, 2"), std::string::npos) << e.what();
  }
}

TEST(Meeting, NobodyThereIsAnErrorInTime) {
  Address at;
  {
    const Socket listener = listen_at({"127.0.0.1", 0});
    at = local_address(listener);
  }
  const auto start = Clock::now();
  try {
    meet(meeting(1, 2, at, 0.4));
    FAIL();
  } catch (const UserError& e) {
    EXPECT_EQ(e.code, Exit::hang);
    EXPECT_NE(std::string(e.what()).find("rank 0 does not answer at 127.0.0.1"), std::string::npos)
        << e.what();
  }
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(5));
}

TEST(Meeting, ATakenPortIsTheUsersToChange) {
  const Socket listener = listen_at({"127.0.0.1", 0});
  EXPECT_THROW(listen_at(local_address(listener)), UserError);
}

}  // namespace
}  // namespace ft
