// The team of threads: every item is done once, and never two at a time on one thread's workspace, even if
// threads are late.
#include "engine/cpu/team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace ft::cpu {
namespace {

// Counts how often each item was done, and overlaps on one thread.
struct Done {
  explicit Done(std::int64_t items, int threads)
      : times(static_cast<std::size_t>(items)), busy(static_cast<std::size_t>(threads)) {}
  std::vector<int> times;
  std::vector<std::atomic<int>> busy;
  std::atomic<int> clashes{0};
};

void each_once(Team& team, std::int64_t items, bool alone = false) {
  Done done(items, team.size());
  share_out(team, items, alone, [&](std::int64_t i, int thread) {
    auto& busy = done.busy[static_cast<std::size_t>(thread)];
    if (busy.fetch_add(1) != 0) ++done.clashes;
    ++done.times[static_cast<std::size_t>(i)];
    busy.fetch_sub(1);
  });
  EXPECT_EQ(done.clashes, 0);
  EXPECT_EQ(done.times, std::vector<int>(static_cast<std::size_t>(items), 1)) << team.size() << " threads";
}

TEST(Team, DoesEveryItemOnce) {
  for (const int threads : {1, 2, 3, 8}) {
    Team team(threads);
    EXPECT_EQ(team.size(), threads);
    for (const std::int64_t items : {0, 1, 2, 3, 7, 64, 1000, 12345}) each_once(team, items);
    each_once(team, 100, true);
  }
}

// With loops in quick succession, a thread must not enter a loop that is over, and a late thread must not be
// counted in the next loop.
TEST(Team, ManyShortLoops) {
  Team team(4);
  std::int64_t total = 0;
  for (int loop = 0; loop < 20000; ++loop) {
    std::int64_t parts[4] = {};
    share_out(team, 4, false, [&](std::int64_t i, int) { parts[i] = loop + i; });
    for (const std::int64_t p : parts) total += p;
  }
  EXPECT_EQ(total, 4 * std::int64_t{20000} * 19999 / 2 + 6 * 20000);
}

// Threads that sleep between loops wake up.
TEST(Team, WakesUp) {
  Team team(3);
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    each_once(team, 100);
  }
}

// Data that a thread writes in a loop is visible to all threads in the next loop.
TEST(Team, SeesResultsOfEarlierLoops) {
  Team team(3);
  std::vector<std::int64_t> x(300, 0), y(300, 0);
  for (int loop = 1; loop < 300; ++loop) {
    share_out(team, 300, false, [&](std::int64_t i, int) {
      y[static_cast<std::size_t>(i)] = x[static_cast<std::size_t>(299 - i)] + 1;
    });
    std::swap(x, y);
    for (const std::int64_t v : x) ASSERT_EQ(v, loop);
  }
}

TEST(Team, EndsWithoutHavingWorked) {
  for (int i = 0; i < 50; ++i) Team team(4);
}

}  // namespace
}  // namespace ft::cpu
