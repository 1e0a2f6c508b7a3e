// Ranks as threads. Some are lost, in each way in which a process can be lost.
#include "engine/ranks/watch.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <future>

namespace ft {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Ended {
  Exit exit = Exit::done;
  std::string text;
};

// Waits for a verdict and returns it.
Ended end_of(Watch& w) {
  pollfd p{w.fd(), POLLIN, 0};
  if (::poll(&p, 1, 5000) != 1) return {};
  try {
    w.end();
  } catch (const UserError& e) {
    return {e.code, e.what()};
  }
}

Ended accused_by(Watch& w, int rank, Exit exit, const std::string& what) {
  try {
    w.accuse(rank, exit, what);
  } catch (const UserError& e) {
    return {e.code, e.what()};
  }
}

// Waits for several heartbeats, so that every rank knows the positions of the others.
void listen() { std::this_thread::sleep_for(milliseconds(2000)); }

class Three : public testing::Test {
 protected:
  std::vector<Mesh> meshes = mesh_of_threads(3);
  Watch zero{meshes[0]}, one{meshes[1]};
};

TEST_F(Three, ADeadRankIsKnownToAllAtOnce) {
  zero.at_step(812);
  zero.enter("model.layers.11");
  zero.begin(Collective::all_gather, 1234);
  const auto start = Clock::now();
  meshes[2].peers[0].control = Socket();
  const std::string want =
      "rank 2 (a thread) went away, at step 812, in all_gather number 1234 of model.layers.11";
  for (Watch* w : {&zero, &one}) {
    const Ended e = end_of(*w);
    EXPECT_EQ(e.exit, Exit::peer_lost);
    EXPECT_EQ(e.text, want);
  }
  EXPECT_LT(Clock::now() - start, seconds(5));
}

// Rank 0 does not watch here: one of its two connections ends first, and rank 0 would accuse the rank at the
// other end.
TEST(Watched, RankZeroIsMissedByEachOfTheOthers) {
  std::vector<Mesh> meshes = mesh_of_threads(3);
  Watch one{meshes[1]}, two{meshes[2]};
  for (const std::size_t r : {1, 2}) ::shutdown(meshes[0].peers[r].control.fd(), SHUT_RDWR);
  for (Watch* w : {&one, &two})
    EXPECT_EQ(end_of(*w).text, "rank 0 (a thread) went away, before the first step");
}

TEST_F(Three, TheFirstAccusedIsGuiltyForAll) {
  Watch two{meshes[2]};
  auto ones =
      std::async(std::launch::async, [&] { return accused_by(one, 2, Exit::mismatch, "is elsewhere"); });
  EXPECT_EQ(ones.get().text, "rank 2 (a thread) is elsewhere, before the first step");
  EXPECT_EQ(accused_by(two, 1, Exit::peer_lost, "went away").text,
            "rank 2 (a thread) is elsewhere, before the first step");
  EXPECT_EQ(end_of(zero).exit, Exit::mismatch);
}

// Rank 0 waits for 1, which waits for 2, which computes. Rank 2 is stuck.
TEST_F(Three, ARankThatOnlyWaitsIsNotStuck) {
  Watch two{meshes[2]};
  one.begin(Collective::transfer, 7);
  one.waits_for(2);
  two.begin(Collective::transfer, 6);
  two.leave(6);
  listen();
  const Ended e = accused_by(zero, 1, Exit::hang, "has not answered for 60 s");
  EXPECT_EQ(e.exit, Exit::hang);
  EXPECT_EQ(e.text,
            "rank 2 (a thread) has not answered for 60 s, before the first step\n"
            "  it is alive, before the first step, after transfer number 6");
  EXPECT_EQ(end_of(two).text, e.text);
}

// Ranks that wait on GPUs do not know for which rank. The rank that has begun the fewest collectives is
// blamed.
TEST_F(Three, TheLastRankIsNamedIfTheStuckOneIsUnknown) {
  Watch two{meshes[2]};
  zero.begin(Collective::all_gather, 9);
  one.begin(Collective::all_gather, 9);
  two.begin(Collective::all_gather, 8);
  two.leave(8);
  two.leave(7);  // an old number, which is ignored
  listen();
  EXPECT_FALSE(one.over());
  one.suspect_last(Exit::hang, "has not answered for 60 s");
  EXPECT_TRUE(one.over());
  for (Watch* w : {&zero, &one})
    EXPECT_EQ(end_of(*w).text,
              "rank 2 (a thread) has not answered for 60 s, before the first step, in all_gather number 9\n"
              "  it is alive, before the first step, after all_gather number 8");
}

TEST_F(Three, NoRankIsNamedIfAllAreInTheSameCollective) {
  Watch two{meshes[2]};
  for (Watch* w : {&zero, &one, &two}) w->begin(Collective::all_gather, 9);
  listen();
  two.suspect_last(Exit::hang, "has not answered for 60 s");
  EXPECT_EQ(
      end_of(zero).text,
      "a GPU, or a network between them, has not answered for 60 s; all ranks are before the first step, "
      "in all_gather number 9");
}

TEST_F(Three, ASilentProcessIsCalledStopped) {
  std::this_thread::sleep_for(milliseconds(3200));  // no rank 2 exists that would send heartbeats
  const Ended e = accused_by(one, 2, Exit::hang, "has not answered for 3 s");
  EXPECT_NE(e.text.find("\n  no heartbeat for "), std::string::npos) << e.text;
  EXPECT_NE(e.text.find(" s: its process is stopped"), std::string::npos) << e.text;
}

TEST(Watched, AFailedRankIsReportedAndAFinishedOneIsNot) {
  std::vector<Mesh> meshes = mesh_of_threads(3);
  Watch zero{meshes[0]};
  { Watch two{meshes[2]}; }  // leaves without an error
  meshes[2].peers[0].control = Socket();
  std::this_thread::sleep_for(milliseconds(300));
  pollfd p{zero.fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&p, 1, 0), 0);
  try {
    Watch one{meshes[1]};
    throw std::runtime_error("dies");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(end_of(zero).text, "rank 1 (a thread) failed; its own message says why, before the first step");
}

// Calls give_up for a rank that does not look at its verdict.
class GiveUps : public testing::Test {
 protected:
  void SetUp() override {
    meshes[0].give_up = [&](Exit, const std::string& t) { text = t, at = Clock::now(), given_up = true; };
  }
  bool gives_up() const {
    for (int i = 0; i < 3000 && !given_up; ++i) std::this_thread::sleep_for(milliseconds(10));
    return given_up;
  }
  std::vector<Mesh> meshes = mesh_of_threads(2);
  std::string text = "?";
  Clock::time_point at;
  std::atomic<bool> given_up{false};
};

TEST_F(GiveUps, EndARankThatComputes) {
  const Watch zero{meshes[0]};
  meshes[1].peers[0].control = Socket();
  ASSERT_TRUE(gives_up());
  EXPECT_EQ(text, "rank 1 (a thread) went away, before the first step");
}

// The rank has reported the reason, so give_up gets no text. It is called only after the rank has had time to
// leave.
TEST_F(GiveUps, EndABlockedRank) {
  Watch zero{meshes[0]};
  meshes[1].peers[0].control = Socket();
  const auto start = Clock::now();
  EXPECT_NE(end_of(zero).text, "");
  ASSERT_TRUE(gives_up());
  EXPECT_GT(at - start, seconds(2));
  EXPECT_EQ(text, "");
}

// Nonsense from a peer neither crashes nor ends the run.
TEST(Nonsense, OnTheControlChannelIsIgnored) {
  std::vector<Mesh> meshes = mesh_of_threads(2);
  Watch zero{meshes[0]};
  const std::string noise(100'000, '\x7f');
  ::send(meshes[1].peers[0].control.fd(), noise.data(), noise.size(), MSG_NOSIGNAL);
  std::this_thread::sleep_for(milliseconds(200));
  pollfd p{zero.fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&p, 1, 0), 0);
}

}  // namespace
}  // namespace ft
