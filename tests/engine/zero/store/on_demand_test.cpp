// Units that a layer acquires when a token needs them.
#include "engine/zero/store/on_demand.h"

#include "tests/engine/zero/store/small_model.h"

namespace ft::zero {
namespace {

// A matrix deserves a separate unit if it is gathered or fetched, or if ranks add up its gradient.
TEST(OnDemand, SuitsParametersThatMove) {
  for (const int ranks : {1, 2})
    for (const int stage : {0, 3})
      run_ranks(ranks, false, [&](Communicator& comm) {
        SmallStore s(comm, of_stage(stage));
        const OnDemand units(s.layout, s.residency, s.reduction);
        EXPECT_EQ(units.suits(s.model.at(0, 0)), ranks > 1);
        EXPECT_FALSE(units.suits(s.model.at(0, 1)));  // small
        EXPECT_EQ(units.suits(s.model.at(0, 2)), ranks > 1 && stage == 3);
      });
  run_ranks(1, false, [&](Communicator& comm) {
    SmallStore s(comm, of_stage(0), no_states, {.params = std::make_shared<MemoryDepot>()});
    EXPECT_TRUE(OnDemand(s.layout, s.residency, s.reduction).suits(s.model.at(0, 2)));
  });
}

TEST(OnDemand, RanksWantWhatAnyOfThemWants) {
  run_ranks(3, false, [](Communicator& comm) {
    SmallStore sharded(comm, of_stage(3), no_states, {}, DType::f32, true),
        replicated(comm, of_stage(1), no_states, {}, DType::f32, true);
    std::vector<std::uint8_t> mine(4, 0);
    if (comm.rank() < 2) mine[static_cast<std::size_t>(comm.rank())] = 1;
    const auto wanted = [&](SmallStore& s, bool backward) {
      return OnDemand(s.layout, s.residency, s.reduction).wanted_by_any(mine, false, backward);
    };
    EXPECT_EQ(wanted(sharded, false), (std::vector<std::uint8_t>{1, 1, 0, 0}));
    EXPECT_EQ(wanted(replicated, true), std::vector<std::uint8_t>(4, 1));  // no other rank is asked
  });
}

// On-demand units are in no expected order, and a unit gathered ahead is there when it is acquired.
TEST(OnDemand, UnitsAreGatheredAhead) {
  run_ranks(2, true, [](Communicator& comm) {
    SmallStore s(comm, of_stage(3, true), no_states, {}, DType::f32, true);
    OnDemand units(s.layout, s.residency, s.reduction);
    EXPECT_EQ(units.ahead(0), 1);
    units.gather(2);
    EXPECT_TRUE(s.residency.pending());
    units.gather(2);  // nothing more
    s.residency.acquire(2);
    EXPECT_FALSE(s.residency.pending());
    const Parameter& w = s.model.at(2, 0);
    for (std::int64_t i = 0; i < w.shape.numel(); ++i) ASSERT_EQ(element(w.value, i), initial(w, i));
    s.residency.release(2);
  });
}

TEST(OnDemand, SeveralAreGatheredAheadFromAFile) {
  run_ranks(1, false, [](Communicator& comm) {
    ZeroOptions options = of_stage(0);
    const auto ahead = [&](std::int64_t prefetch) {
      options.prefetch = prefetch;
      SmallStore s(comm, options, no_states, {.params = std::make_shared<MemoryDepot>()}, DType::f32, true);
      return OnDemand(s.layout, s.residency, s.reduction).ahead(0);
    };
    EXPECT_EQ(ahead(0), 1);
    EXPECT_EQ(ahead(3 * (6 * 512 + 5 * 512)), 3);
    EXPECT_EQ(ahead(1'000'000), 16);
  });
}

}  // namespace
}  // namespace ft::zero
