#include "engine/ranks/overlapped_communicator.h"

#include <gtest/gtest.h>

#include <numeric>

#include "engine/ranks/together.h"
#include "tests/support/ranks.h"

namespace ft {
namespace {

Tensor tensor(std::vector<float>& v) {
  return {reinterpret_cast<std::byte*>(v.data()), DType::f32, {static_cast<std::int64_t>(v.size())}};
}

// Started and direct collectives of the world and of its halves run in the program's order.
TEST(OverlappedCommunicator, KeepsTheOrder) {
  run_ranks(4, true, [](Communicator& c) {
    const int half = c.rank() / 2;
    const auto pair = c.split({.members = {2 * half, 2 * half + 1}});
    EXPECT_EQ(pair->rank(), c.rank() % 2);
    EXPECT_EQ(pair->size(), 2);
    std::vector<std::vector<float>> all(20, std::vector<float>(100, static_cast<float>(c.rank() + 1)));
    std::vector<Communicator::Ticket> tickets;
    for (auto& v : all) {
      tickets.push_back(c.start([&v](Communicator& now) { now.all_reduce(tensor(v)); }));      // gives 10
      tickets.push_back(pair->start([&v](Communicator& now) { now.all_reduce(tensor(v)); }));  // gives 20
    }
    std::vector<float> direct{static_cast<float>(c.rank())};
    c.all_reduce(tensor(direct));
    EXPECT_EQ(direct[0], 6);
    for (const auto t : tickets) c.finish(t);
    for (const auto& v : all) EXPECT_EQ(v, std::vector<float>(100, 20));
    std::vector<float> mine{static_cast<float>(c.rank())}, both(2);
    pair->all_gather(tensor(both), tensor(mine));
    EXPECT_EQ(both, (std::vector<float>{static_cast<float>(2 * half), static_cast<float>(2 * half + 1)}));
  });
}

TEST(OverlappedCommunicator, FinishesTheTicketsOfThoseSplitOff) {
  run_ranks(2, true, [](Communicator& c) {
    const auto both = c.split({.members = {0, 1}}), again = both->split({.members = {0, 1}});
    std::vector<float> by_both{1}, by_again{1}, by_all{1};
    const auto first = both->start([&](Communicator& now) { now.all_reduce(tensor(by_both)); });
    const auto second = again->start([&](Communicator& now) { now.all_reduce(tensor(by_again)); });
    const auto third = c.start([&](Communicator& now) { now.all_reduce(tensor(by_all)); });
    c.finish(first);
    EXPECT_EQ(by_both[0], 2);
    both->finish(second);
    EXPECT_EQ(by_again[0], 2);
    again->finish(third);
    EXPECT_EQ(by_all[0], 2);
  });
}

TEST(OverlappedCommunicator, RethrowsTheErrorOfAWork) {
  run_ranks(1, true, [](Communicator& c) {
    const auto ticket = c.start([](Communicator&) { throw UserError(Exit::peer_lost, "rank 7 went away"); });
    EXPECT_THROW(c.finish(ticket), UserError);
    EXPECT_THROW(c.barrier(), UserError);  // the communicator is unusable afterwards
  });
}

// A rank that fails does not wait for outstanding messages of others.
TEST(OverlappedCommunicator, AbandonsRunningCollectives) {
  const auto start = std::chrono::steady_clock::now();
  run_ranks(2, true, [](Communicator& c) {
    std::vector<float> v(1000);
    if (c.rank() == 0) {
      c.start([&v](Communicator& now) { now.all_reduce(tensor(v)); });
      c.abandon();
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

// together(): all ranks succeed, or all fail.
TEST(Together, OneFailureIsEverybodys) {
  std::vector<std::string> said(3);
  run_ranks(3, false, [&](Communicator& c) {
    together(c, "do it", [] {});
    EXPECT_EQ(shared(c, c.rank() == 0 ? "text" : "other"), "text");
    try {
      together(c, "save its part", [&] {
        if (c.rank() == 1) throw UserError(Exit::storage, "no space");
      });
    } catch (const UserError& e) {
      said[static_cast<std::size_t>(c.rank())] = str(static_cast<int>(e.code), " ", e.what());
    }
    c.barrier();  // the ranks are still in step
  });
  EXPECT_EQ(said[1], "6 no space");
  for (const std::size_t r : {0, 2})
    EXPECT_EQ(said[r], "8 rank 1 could not save its part; its message says why");
}

}  // namespace
}  // namespace ft
