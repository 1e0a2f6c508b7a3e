// Values of a store while units are in use: gathered, fetched, prefetched, in codes, from second copies.
#include "engine/zero/store/residency.h"

#include "tests/engine/zero/store/small_model.h"

namespace ft::zero {
namespace {

void expect_initial(SmallModel& model, int unit, float error = 0) {
  for (const int which : {0, 1, 2}) {
    const Parameter& p = model.at(unit, which);
    for (std::int64_t i = 0; i < p.shape.numel(); ++i)
      ASSERT_NEAR(element(p.value, i), initial(p, i), error) << p.name << " " << i;
  }
}

TEST(Residency, ValuesAreCompleteWhileInUse) {
  for (const int ranks : {1, 2, 3})
    for (const bool overlap : {false, true})
      for (const int stage : {0, 3})
        run_ranks(ranks, overlap, [&](Communicator& comm) {
          SmallStore s(comm, of_stage(stage, overlap));
          EXPECT_EQ(s.residency.gathers(), stage == 3);
          for (int pass = 0; pass < 2; ++pass)
            for (const int u : {0, 2, 1}) {
              s.residency.acquire(u);
              expect_initial(s.model, u);
              EXPECT_TRUE(s.residency.release(u));
            }
        });
}

TEST(Residency, AUnitStaysUntilItsLastRelease) {
  run_ranks(2, false, [&](Communicator& comm) {
    SmallStore s(comm, of_stage(3));
    s.residency.acquire(1);
    s.residency.acquire(1);
    EXPECT_FALSE(s.residency.release(1));
    s.residency.acquire(0);  // would take the memory of unit 1
    expect_initial(s.model, 1);
    EXPECT_TRUE(s.residency.release(1));
    EXPECT_TRUE(s.residency.release(0));
  });
}

TEST(Residency, PrefetchesInTheExpectedOrder) {
  run_ranks(2, true, [&](Communicator& comm) {
    ZeroOptions options = of_stage(3, true);
    options.prefetch = 1;  // one unit ahead
    SmallStore s(comm, options);
    EXPECT_FALSE(s.residency.expects());
    s.residency.expect({2, 0, 1});
    EXPECT_TRUE(s.residency.expects());
    s.residency.acquire(2);
    EXPECT_TRUE(s.residency.pending());  // unit 0 is on its way
    const Unit &first = s.layout.unit(2), &next = s.layout.unit(0);
    const std::int64_t persistent = SmallModel::kUnits * SmallModel::kSmall;
    EXPECT_EQ(s.residency.most_live(), first.elements + next.elements + persistent);
    EXPECT_THROW(s.residency.acquire(1), InternalError);  // another order
    EXPECT_THROW(s.residency.expect({1}), InternalError);
    s.residency.acquire(0);
    s.residency.acquire(1);
    for (const int u : {0, 1, 2}) expect_initial(s.model, u);
    for (const int u : {0, 1, 2}) s.residency.release(u);
    EXPECT_FALSE(s.residency.pending());
  });
}

TEST(Residency, NothingIsPrefetchedBeyondTheLimit) {
  run_ranks(2, true, [&](Communicator& comm) {
    ZeroOptions options = of_stage(3, true);
    options.prefetch = options.max_live = 1;
    SmallStore s(comm, options);
    s.residency.expect({0, 1});
    s.residency.acquire(0);
    EXPECT_FALSE(s.residency.pending());
    s.residency.release(0);
  });
}

TEST(Residency, OffloadedValuesAreFetched) {
  for (const int ranks : {1, 2})
    run_ranks(ranks, true, [&](Communicator& comm) {
      ZeroOptions options = of_stage(ranks > 1 ? 3 : 0, true);
      options.prefetch = 1;
      SmallStore s(comm, options, no_states, {.params = std::make_shared<MemoryDepot>()});
      EXPECT_TRUE(s.residency.offloads());
      s.layout.each_group([&](const Group& g) {
        EXPECT_EQ(bool(s.residency.value(g)), !g.transient);
        EXPECT_EQ(bool(s.residency.away(g)), g.transient && g.trained);
      });
      StoreMemory m;
      s.residency.add_to(m);
      EXPECT_EQ(m.weights, 0);  // frozen values are in the depot
      s.residency.expect({0, 1, 2});
      for (const int u : {0, 1, 2}) {
        s.residency.acquire(u);
        expect_initial(s.model, u);
        s.residency.release(u);
      }
    });
}

// The gathered values have the errors of 8-bit codes, and every rank has the same bits.
TEST(Residency, CodedValuesAreNear) {
  std::vector<std::vector<float>> all(2);
  run_ranks(2, false, [&](Communicator& comm) {
    ZeroOptions options = of_stage(3);
    options.coded_values = true;
    SmallStore s(comm, options);
    const std::int64_t before = comm.sent();
    s.residency.acquire(0);
    const std::int64_t plain = s.layout.unit(0).elements / 2 * size_of(DType::f32);
    EXPECT_LT(comm.sent() - before, plain / 3);
    EXPECT_GT(comm.sent() - before, plain / 4);
    expect_initial(s.model, 0, 25.0f / 256);
    const Tensor& w = s.model.at(0, 0).value;
    for (std::int64_t i = 0; i < w.numel(); ++i)
      all[static_cast<std::size_t>(comm.rank())].push_back(element(w, i));
    s.residency.release(0);
  });
  EXPECT_EQ(all[0], all[1]);
}

// A second copy among two of four ranks is used until trained values change. Copies of frozen ones stay.
TEST(Residency, SecondCopiesAreUsedUntilForgotten) {
  run_ranks(4, false, [&](Communicator& comm) {
    ZeroOptions options = of_stage(3);
    options.near = 2;
    SmallStore s(comm, options);
    const auto sent = [&] {
      const std::int64_t before = comm.sent();
      s.residency.acquire(1);
      expect_initial(s.model, 1);
      s.residency.release(1);
      return comm.sent() - before;
    };
    const std::int64_t first = sent(), second = sent();
    EXPECT_EQ(sent(), second);
    s.residency.forget_copies();
    const std::int64_t changed = sent();
    std::int64_t trained = 0, frozen = 0;  // bytes that a rank holds
    for (const Group& g : s.layout.unit(1).groups)
      if (g.transient) (g.trained ? trained : frozen) += g.bytes() / 4;
    EXPECT_EQ(first, 3 * (trained + frozen));
    EXPECT_EQ(second, 2 * (trained + frozen));
    EXPECT_EQ(changed, 3 * trained + 2 * frozen);
  });
}

}  // namespace
}  // namespace ft::zero
