// Gradients of a store: sums over ranks and micro-steps, wherever they are kept and however they are sent.
#include "engine/zero/store/reduction.h"

#include <cmath>

#include "tests/engine/zero/store/small_model.h"

namespace ft::zero {
namespace {

// Returns this rank's gradients of a group, which are kept on the device or in a MemoryDepot.
Tensor kept(SmallStore& s, const Group& g) {
  const GradientHome::Kept k = s.reduction.home().kept(g);
  const std::int64_t count = s.layout.held(g, g.stage.grads).count;
  return k.away ? Tensor(k.away.depot->in_place(k.away.at), DType::f32, {count}) : k.here;
}

// Expects the sums over all ranks in the part of each group that this rank updates.
void expect_sums(SmallStore& s, int micro_steps, float error = 0) {
  s.reduction.settle();
  s.layout.each_group([&](const Group& g) {
    if (!g.trained) return;
    const Tensor own = kept(s, g);
    const std::int64_t first = s.layout.held(g, g.stage.grads).first;
    for (std::size_t i = 0; i < g.parameters.size(); ++i) {
      const Range part = g.part(i, s.layout.updated(g));
      for (std::int64_t k = part.first; k < part.end(); ++k)
        ASSERT_NEAR(element(own, k - first), s.summed(*g.parameters[i], k - g.offsets[i], micro_steps), error)
            << g.parameters[i]->name << " " << k - g.offsets[i];
    }
  });
}

double norm_of_sums(SmallStore& s, int micro_steps) {
  double squares = 0;
  for (const Parameter& p : s.model.all)
    for (std::int64_t i = 0; p.trainable && i < p.shape.numel(); ++i)
      squares += std::pow(s.summed(p, i, micro_steps), 2);
  return std::sqrt(squares);
}

// Products overwrite the gradients of the step before, which are not cleared; without any they are zero.
TEST(Reduction, GradientsOfProductsAreClearedOnlyWithoutProducts) {
  for (const int ranks : {1, 2})
    for (const int stage : {0, 1})
      run_ranks(ranks, true, [&](Communicator& comm) {
        SmallStore s(comm, of_stage(stage, true));
        s.step(2);
        expect_sums(s, 2);
        s.reduction.begin_step(false);
        Parameter &w = s.model.at(0, 0), &n = s.model.at(0, 1);
        EXPECT_TRUE(w.grad_unset);
        EXPECT_FALSE(n.grad_unset);
        EXPECT_NE(element(w.grad, 1), 0);
        EXPECT_EQ(element(n.grad, 1), 0);
        expect_sums(s, 0);
        EXPECT_FALSE(w.grad_unset);
        EXPECT_EQ(s.norm(), 0);
      });
}

class Sums : public testing::TestWithParam<std::tuple<int, int, int, bool, bool>> {};
TEST_P(Sums, AreOverRanksAndMicroSteps) {
  const auto [ranks, stage, micro_steps, overlap, offloads] = GetParam();
  run_ranks(ranks, overlap, [&, m = micro_steps](Communicator& comm) {
    Homes homes;
    if (offloads) homes.states = std::make_shared<MemoryDepot>();
    SmallStore s(comm, of_stage(stage, overlap), no_states, homes);
    for (int step = 0; step < 2; ++step) {  // the second step begins from zeros
      s.step(m);
      expect_sums(s, m);
      EXPECT_NEAR(s.norm(), norm_of_sums(s, m), 1e-9 * norm_of_sums(s, m));
    }
    EXPECT_EQ(s.reduction.has_temporary(), stage >= 2 || offloads);
    StoreMemory memory;
    s.reduction.add_to(memory);
    EXPECT_EQ(memory.gradients == 0, offloads);
  });
}
INSTANTIATE_TEST_SUITE_P(Reduction, Sums,
                         testing::Combine(testing::Values(1, 3), testing::Range(0, 4), testing::Values(1, 3),
                                          testing::Bool(), testing::Bool()));

// The ranks of a group scatter the sum, and ranks at the same place of both groups add up their pieces.
TEST(Reduction, GroupsOfRanksAddUp) {
  for (const int stage : {1, 2})
    run_ranks(4, true, [&](Communicator& comm) {
      ZeroOptions options = of_stage(stage, true);
      options.group = 2;
      SmallStore s(comm, options);
      s.step(2);
      expect_sums(s, 2);
    });
}

// Sums of 4-bit codes have errors, but at most a step of the codes for every hop; the vectors have none.
TEST(Reduction, CodedSumsAreNear) {
  for (const int near : {0, 2})
    run_ranks(4, true, [&](Communicator& comm) {
      ZeroOptions options = of_stage(3, true);
      options.coded_grads = true;
      options.near = near;
      options.persist = 0;
      SmallStore s(comm, options);
      const std::int64_t before = comm.sent();
      s.step(1);
      expect_sums(s, 1, near > 0 ? 24 : 12);
      s.layout.each_group([&](const Group& g) {
        if (!g.trained || g.coded_grads) return;
        const Range part = g.part(0, s.layout.updated(g));
        for (std::int64_t k = 0; k < part.count; ++k)
          EXPECT_EQ(element(kept(s, g), k), s.summed(*g.parameters[0], part.first + k, 1));
      });
      EXPECT_GT(comm.sent(), before);
    });
}

// Gradients that ranks add up themselves stay as each rank made them.
TEST(Reduction, OwnGradientsAreNotAddedUp) {
  run_ranks(2, false, [](Communicator& comm) {
    SmallStore s(comm, of_stage(1));
    s.step(1, {}, true);
    double squares = 0;
    s.layout.each_group([&](const Group& g) {
      if (!g.trained) return;
      s.reduction.with_complete(g, [&](const Tensor& all) {
        for (std::size_t i = 0; i < g.parameters.size(); ++i)
          for (std::int64_t k = 0; k < g.parameters[i]->shape.numel(); ++k)
            ASSERT_EQ(element(all, g.offsets[i] + k), gradient(*g.parameters[i], k, comm.rank()));
      });
    });
    for (const Parameter& p : s.model.all)
      for (int r = 0; r < 2; ++r)
        for (std::int64_t i = 0; p.trainable && i < p.shape.numel(); ++i)
          squares += std::pow(gradient(p, i, r), 2);
    EXPECT_NEAR(s.norm(), std::sqrt(2 * squares), 1e-9 * squares);
    EXPECT_THROW(SmallStore(comm, of_stage(2)).reduction.begin_step(true), InternalError);
  });
}

TEST(Reduction, GathersCompleteGradients) {
  for (const int stage : {0, 1, 2, 3})
    run_ranks(2, true, [&](Communicator& comm) {
      SmallStore s(comm, of_stage(stage, true));
      s.step(1);
      s.reduction.settle();
      s.layout.each_group([&](const Group& g) {
        if (!g.trained) return;
        s.reduction.with_complete(g, [&](const Tensor& all) {
          for (std::size_t i = 0; i < g.parameters.size(); ++i)
            for (std::int64_t k = 0; k < g.parameters[i]->shape.numel(); ++k)
              ASSERT_EQ(element(all, g.offsets[i] + k), s.summed(*g.parameters[i], k, 1));
        });
      });
    });
}

// A unit on demand that the last micro-step does not use still has to be acquired if it has gradients in a
// depot.
TEST(Reduction, KnowsWhichUnitsBecomeComplete) {
  run_ranks(1, false, [](Communicator& comm) {
    SmallStore s(comm, of_stage(0), no_states, {.states = std::make_shared<MemoryDepot>()}, DType::f32, true);
    s.reduction.begin_step(false);
    s.reduction.begin_micro_step(false);
    s.reduction.acquire(1);
    s.model.make_gradients(1, 0);
    s.reduction.reduce(1, true);
    EXPECT_FALSE(s.reduction.completes(1));
    s.reduction.begin_micro_step(true);
    EXPECT_TRUE(s.reduction.completes(1));
    EXPECT_FALSE(s.reduction.completes(2));
  });
}

TEST(Reduction, TellsWhenGradientsAreKept) {
  run_ranks(2, true, [](Communicator& comm) {
    SmallStore s(comm, of_stage(2, true));
    std::vector<int> units;
    s.reduction.when_kept([&](const Unit& u) { units.push_back(u.index); });
    s.step(2);
    s.reduction.settle();
    EXPECT_EQ(units, (std::vector<int>{2, 1, 0}));
  });
}

TEST(Reduction, AUnitHasOneBackwardPassAtATime) {
  run_ranks(1, false, [](Communicator& comm) {
    SmallStore s(comm, of_stage(2));
    s.reduction.begin_micro_step(true);
    s.reduction.acquire(0);
    EXPECT_THROW(s.reduction.acquire(0), InternalError);
    s.reduction.release(0);
    for (int i = 0; i < 1000; ++i) {  // release() gives the memory back
      s.reduction.acquire(0);
      s.reduction.release(0);
    }
    EXPECT_THROW(s.reduction.reduce(0, true), InternalError);
  });
}

}  // namespace
}  // namespace ft::zero
