// Places of ranks in a grid, and collectives along its axes.
#include "engine/ranks/grid.h"

#include <gtest/gtest.h>

#include <numeric>

#include "engine/ranks/staged_communicator.h"
#include "engine/zero/planned.h"
#include "tests/support/ranks.h"

namespace ft {
namespace {

using Floats = std::vector<float>;

Tensor whole(Floats& v) {
  return {reinterpret_cast<std::byte*>(v.data()), DType::f32, {static_cast<std::int64_t>(v.size())}};
}

GridShape grid(int pipeline, int data, int sequence, int tensor) {
  return GridShape({.pipeline = pipeline, .data = data, .sequence = sequence, .tensor = tensor});
}

TEST(Grid, TensorIsInnermostAndPipelinesOutermost) {
  const GridShape g = grid(2, 3, 2, 2);
  EXPECT_EQ(g.ranks(), 24);
  EXPECT_EQ(g.zero(), 6);
  EXPECT_EQ(g.group_of(5, {Axis::tensor}), (std::vector{4, 5}));
  EXPECT_EQ(g.group_of(5, {Axis::sequence}), (std::vector{5, 7}));
  EXPECT_EQ(g.group_of(5, {Axis::data}), (std::vector{1, 5, 9}));
  EXPECT_EQ(g.group_of(5, {Axis::pipeline}), (std::vector{5, 17}));
  EXPECT_EQ(g.group_of(5, {Axis::data, Axis::sequence}), (std::vector{1, 3, 5, 7, 9, 11}));
  for (int r = 0; r < g.ranks(); ++r) {
    const GridPoint p = g.place_of(r);
    EXPECT_EQ(((p.pipeline * 3 + p.data) * 2 + p.sequence) * 2 + p.tensor, r);
  }
}

// Experts are sharded among neighbouring data ranks, separately for each sequence rank.
TEST(Grid, ExpertsAreShardedAmongDataRanks) {
  const GridShape g({.pipeline = 1, .data = 4, .sequence = 2, .tensor = 1}, 2);
  EXPECT_EQ(g.expert_group_of(0), (std::vector{0, 2}));
  EXPECT_EQ(g.expert_group_of(3), (std::vector{1, 3}));
  EXPECT_EQ(g.expert_group_of(6), (std::vector{4, 6}));
  EXPECT_EQ(g.same_experts_of(0), (std::vector{0, 1, 4, 5}));
  EXPECT_EQ(g.same_experts_of(7), (std::vector{2, 3, 6, 7}));
  for (const bool overlap : {false, true})
    run_ranks(8, overlap, [&](Communicator& world) {
      const Grid mine(world, g);
      for (const auto& [ranks, members] : {std::pair{mine.expert(), g.expert_group_of(world.rank())},
                                           {mine.same_experts(), g.same_experts_of(world.rank())}}) {
        Floats x{static_cast<float>(1 << world.rank())};
        float want = 0;
        for (const int r : members) want += static_cast<float>(1 << r);
        ranks->all_reduce(whole(x));
        EXPECT_EQ(x[0], want);
      }
    });
}

// Each axis adds up over its own ranks, even if another axis is not used, or used more often.
TEST(Grid, AxesHaveCollectivesOfTheirOwn) {
  for (const bool overlap : {false, true})
    run_ranks(8, overlap, [](Communicator& world) {
      const Grid g(world, grid(2, 1, 2, 2));
      EXPECT_EQ(g.place, g.shape.place_of(world.rank()));
      EXPECT_EQ(g.zero().size(), 2);
      const auto sum = [&](Communicator* c) {
        Floats x{static_cast<float>(1 << world.rank())};
        c->all_reduce(whole(x));
        return x[0];
      };
      const auto want = [&](Axis a) {
        float all = 0;
        for (const int r : g.shape.group_of(world.rank(), {a})) all += static_cast<float>(1 << r);
        return all;
      };
      for (int i = 0; i <= g.place.pipeline; ++i)  // stages of a pipeline use the axis differently often
        EXPECT_EQ(sum(g.tensor()), want(Axis::tensor));
      EXPECT_EQ(sum(g.sequence()), want(Axis::sequence));
      EXPECT_EQ(sum(g.pipeline()), want(Axis::pipeline));
      EXPECT_EQ(sum(&g.world()), 255);
    });
}

TEST(Grid, EndsAreThoseOfTheOwnPipeline) {
  run_ranks(6, true, [](Communicator& world) {
    const Grid g(world, grid(3, 1, 1, 2));
    EXPECT_EQ(g.ends() == nullptr, g.place.pipeline == 1);
    if (!g.ends()) return;
    Floats x{static_cast<float>(1 << world.rank())};
    g.ends()->all_reduce(whole(x));
    EXPECT_EQ(x[0], g.place.tensor == 0 ? 1 + 16 : 2 + 32);
  });
}

TEST(Grid, OfDataAloneIsTheWorld) {
  run_ranks(2, [](MeshCommunicator& world) {
    const Grid g(world);
    EXPECT_EQ(&g.zero(), &world);
    EXPECT_EQ(g.place.data, world.rank());
    EXPECT_EQ(g.tensor(), nullptr);
    EXPECT_EQ(g.sequence(), nullptr);
    EXPECT_EQ(g.pipeline(), nullptr);
  });
}

// Sums of gradients are sent in 16 bits, sums of activations without rounding.
TEST(Grid, ActivationsAreNotNarrowed) {
  const auto thrown = run_ranks_catching(4,
                                         [](MeshCommunicator& world) {
                                           const Grid g(world, grid(1, 2, 1, 2));
                                           Floats a{1.001f}, b{1.001f};
                                           g.tensor()->all_reduce(whole(a));
                                           g.zero().all_reduce(whole(b));
                                           EXPECT_EQ(a[0], 1.001f + 1.001f);
                                           EXPECT_EQ(b[0], 2);
                                         },
                                         20, {.dtype = DType::bf16, .scale = 1});
  rethrow_first(thrown);
}

// Piece r that rank q receives is the piece that rank r had for it.
void check_all_to_all(Communicator& c, std::int64_t n) {
  const auto number = [&](int from, int to, std::int64_t i) {
    return static_cast<float>(10000 * from + 1000 * to + i % 900);
  };
  Floats out, in(static_cast<std::size_t>(n * c.size()));
  for (int to = 0; to < c.size(); ++to)
    for (std::int64_t i = 0; i < n; ++i) out.push_back(number(c.rank(), to, i));
  const std::int64_t before = c.sent();
  c.all_to_all(whole(in), whole(out));
  EXPECT_EQ(c.sent() - before, 4 * n * (c.size() - 1));
  PlannedCommunicator plan(c.size(), 0);
  plan.all_to_all(whole(in), whole(out));
  EXPECT_EQ(plan.sent(), 4 * n * (c.size() - 1));
  for (int from = 0; from < c.size(); ++from)
    for (std::int64_t i = 0; i < n; ++i)
      ASSERT_EQ(in[static_cast<std::size_t>(n * from + i)], number(from, c.rank(), i)) << n << " " << i;
}

// Sends to both neighbours in the ring, then from the first rank to the last only.
void check_send_receive(Communicator& c, std::int64_t n) {
  const int next = (c.rank() + 1) % c.size(), last = (c.rank() + c.size() - 1) % c.size();
  Floats own(static_cast<std::size_t>(n), static_cast<float>(c.rank())), other(own);
  for (const bool back : {false, true}) {
    c.send_receive(whole(own), back ? last : next, whole(other), back ? next : last);
    EXPECT_EQ(other, Floats(own.size(), static_cast<float>(back ? next : last)));
  }
  if (c.rank() == 0) c.send_receive(whole(own), c.size() - 1, {}, 0);
  if (c.rank() == c.size() - 1) c.send_receive({}, 0, whole(other), 0);
  if (c.rank() == c.size() - 1) {
    EXPECT_EQ(other, Floats(own.size(), 0));
  }
}

TEST(Messages, ArriveWhereTheyShould) {
  for (const int ranks : {2, 3, 4})
    for (const bool overlap : {false, true})
      run_ranks(ranks, overlap, [](Communicator& c) {
        for (const std::int64_t n : {0, 1, 7, 300'000}) check_all_to_all(c, n);
        for (const std::int64_t n : {1, 7, 300'000}) check_send_receive(c, n);
        c.barrier();
      });
}

// The host's memory is so small that messages go through it in pieces.
TEST(Messages, GoThroughTheHostInPieces) {
  rethrow_first(on_threads(3, [](Ops& ops, Mesh mesh) {
    StagedCommunicator c(ops, std::make_unique<MeshCommunicator>(ops, std::move(mesh), 20), "", 100);
    for (const std::int64_t n : {0, 1, 7, 100}) check_all_to_all(c, n);
    for (const std::int64_t n : {1, 7, 100}) check_send_receive(c, n);
  }));
}

TEST(Messages, OfAnotherSizeAreFoundOut) {
  const auto thrown = run_ranks_catching(2, [](MeshCommunicator& c) {
    Floats x(8), y(16);
    if (c.rank() == 0)
      c.send_receive(whole(x), 1, {}, 0);
    else
      c.send_receive({}, 0, whole(y), 0);
  });
  EXPECT_EQ(said(thrown[1]).code, Exit::mismatch) << said(thrown[1]).what;
}

// The message about a lost rank names the axis and its ranks.
TEST(Grid, ALostRankIsNamedWithItsGroup) {
  const auto thrown = run_ranks_catching(4, [](MeshCommunicator& world) {
    const Grid g(world, grid(1, 2, 2, 1));
    world.barrier();
    if (world.rank() == 3) throw std::runtime_error("dies");
    Floats out(200'000), in(200'000);
    g.sequence()->enter("model.layers.0.self_attn");
    for (int i = 0; i < 3; ++i) g.sequence()->all_to_all(whole(in), whole(out));
    world.barrier();
  });
  const Said s = said(thrown[2]);
  EXPECT_EQ(s.code, Exit::peer_lost) << s.what;
  EXPECT_NE(s.what.find("rank 3 (a thread) "), std::string::npos) << s.what;
  for (const std::size_t r : {0, 1}) EXPECT_EQ(said(thrown[r]).code, Exit::peer_lost);
}

TEST(Grid, ASlowRankIsNamedWithTheGroupThatWaits) {
  const auto thrown = run_ranks_catching(
      4,
      [](MeshCommunicator& world) {
        const Grid g(world, grid(1, 2, 2, 1));
        world.barrier();
        if (world.rank() == 3) std::this_thread::sleep_for(std::chrono::milliseconds(3000));
        Floats out(8), in(8);
        g.sequence()->enter("model.layers.0.self_attn");
        g.sequence()->all_to_all(whole(in), whole(out));
        std::this_thread::sleep_for(std::chrono::milliseconds(400));  // the ranks of its group wait first
        world.barrier();
      },
      1.5);
  const Said s = said(thrown[2]);
  EXPECT_EQ(s.code, Exit::hang) << s.what;
  EXPECT_NE(s.what.find("rank 3 (a thread) has not answered for 1.5 s, before the first step, in "),
            std::string::npos)
      << s.what;
  EXPECT_NE(s.what.find(" in the sequence group of ranks 2, 3"), std::string::npos) << s.what;
}

}  // namespace
}  // namespace ft
