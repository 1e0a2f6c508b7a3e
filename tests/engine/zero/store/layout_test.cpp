// Units, groups and pieces of a store, without memory.
#include "engine/zero/store/layout.h"

#include <map>

#include "engine/zero/planned.h"
#include "tests/engine/zero/store/small_model.h"

namespace ft::zero {
namespace {

constexpr std::array<StateSpec, 1> kBlocks{{{.name = "absmax", .block = 1000}}};
std::span<const StateSpec> in_blocks(const Parameter&) { return kBlocks; }

// Calls f(layout) with the layout of one of `ranks` ranks.
void with_layout(int ranks, int rank, const ZeroOptions& options, SmallModel& model, const StatesOf& states,
                 const std::function<void(const Layout&)>& f) {
  PlannedCommunicator comm(ranks, 0, DType::f32, rank);
  const StoreRanks all(comm, options, nullptr);
  Layout layout(all, options, states, false);
  model.add_to(layout);
  f(layout);
}

TEST(Range, PartIsInside) {
  const Range range{10, 5};
  EXPECT_EQ(range.part(0, 12).first, 10);
  EXPECT_EQ(range.part(0, 12).count, 2);
  EXPECT_EQ(range.part(12, 100).first, 12);
  EXPECT_EQ(range.part(12, 100).count, 3);
  EXPECT_EQ(range.part(0, 10).count, 0);
  EXPECT_EQ(range.part(15, 20).count, 0);
  EXPECT_EQ(range.part(15, 20).first, 15);
}

// Every element of every parameter is in one rank's piece, and padding belongs to no parameter.
TEST(Layout, PiecesHoldEveryElementOnce) {
  for (const int ranks : {1, 2, 3, 5}) {
    std::map<std::string, std::vector<int>> held;
    for (int rank = 0; rank < ranks; ++rank) {
      SmallModel model;
      with_layout(ranks, rank, of_stage(3), model, no_states, [&](const Layout& layout) {
        layout.each_group([&](const Group& g) {
          EXPECT_EQ(g.count % ranks, 0);
          EXPECT_EQ(layout.held(g, Placement::replicated).count, g.count);
          for (std::size_t i = 0; i < g.parameters.size(); ++i) {
            const Parameter& p = *g.parameters[i];
            const std::int64_t size = g.size(p) / p.shape.numel();  // buffer elements of one of p
            auto& times = held[p.name];
            times.resize(static_cast<std::size_t>(g.size(p)));
            const Range part = g.part(i, layout.held(g, Placement::sharded));
            EXPECT_EQ(part.count % size, 0);
            for (std::int64_t k = 0; k < part.count; ++k)
              ++times[static_cast<std::size_t>(part.first - g.offsets[i] + k)];
          }
        });
      });
    }
    EXPECT_EQ(held.size(), 9u);
    for (const auto& [name, times] : held) EXPECT_EQ(times, std::vector<int>(times.size(), 1)) << name;
  }
}

TEST(Layout, GroupsHaveEqualProperties) {
  SmallModel model;
  model.at(0, 2).dtype = DType::u8;  // frozen parameters of several types share a buffer of bytes
  with_layout(2, 0, of_stage(3), model, no_states, [&](const Layout& layout) {
    ASSERT_EQ(layout.units(), 3);
    EXPECT_TRUE(layout.trains(0));
    EXPECT_TRUE(layout.gathers());
    EXPECT_EQ(layout.trained_parameters(), 6);
    const auto& groups = layout.unit(0).groups;
    ASSERT_EQ(groups.size(), 3u);
    EXPECT_FALSE(groups[0].trained);
    EXPECT_EQ(groups[0].dtype, DType::u8);
    EXPECT_TRUE(groups[1].trained && groups[1].transient && !groups[1].persist);
    EXPECT_EQ(groups[1].stage.params, Placement::sharded);
    EXPECT_TRUE(groups[2].trained && groups[2].persist && !groups[2].transient);
    EXPECT_EQ(groups[2].stage.params, Placement::replicated);
    EXPECT_EQ(groups[2].stage.states, Placement::sharded);
    EXPECT_EQ(groups[2].first_trained, 1);
    EXPECT_EQ(layout.unit(0).elements, 6 * 512 + 5 * 512);  // without the persistent vector
    int next = 0;
    layout.each_group([&](const Group& g) { EXPECT_EQ(g.index, next++); });
    EXPECT_EQ(next, layout.groups());
  });
}

TEST(Layout, NothingIsTransientIfReplicated) {
  SmallModel model;
  with_layout(2, 0, of_stage(2), model, no_states, [&](const Layout& layout) {
    EXPECT_FALSE(layout.gathers());
    layout.each_group([](const Group& g) { EXPECT_FALSE(g.transient); });
    EXPECT_EQ(layout.unit(0).elements, 0);
  });
}

// No block of states is in two pieces.
TEST(Layout, PiecesBeginAtBlocks) {
  SmallModel model;
  with_layout(3, 1, of_stage(1), model, in_blocks, [&](const Layout& layout) {
    layout.each_group([&](const Group& g) {
      if (!g.trained) return;
      EXPECT_EQ(layout.updated(g).first % 1000, 0);
      EXPECT_EQ(layout.window(g) % 1000, 0);
      for (const std::int64_t offset : g.offsets) EXPECT_EQ(offset % 1000, 0);
    });
  });
}

TEST(Layout, OnlyMatricesAreCoded) {
  SmallModel model;
  ZeroOptions options = of_stage(3);
  options.persist = 0;
  options.coded_values = options.coded_grads = true;
  with_layout(2, 0, options, model, no_states, [&](const Layout& layout) {
    layout.each_group([&](const Group& g) {
      const bool matrix = g.parameters[0]->shape.rank == 2;
      EXPECT_EQ(g.coded_values, matrix);
      EXPECT_EQ(g.coded_grads, matrix && g.trained);
    });
  });
}

// Ranks 1 and 3 hold the same pieces if ranks 0 and 1, and 2 and 3, share everything.
TEST(Layout, GroupsOfRanksHoldEverything) {
  std::vector<std::int64_t> first;
  for (const int rank : {0, 1, 2, 3}) {
    SmallModel model;
    ZeroOptions options = of_stage(3);
    options.group = 2;
    with_layout(4, rank, options, model, no_states, [&](const Layout& layout) {
      const Group& g = layout.unit(0).groups[0];
      EXPECT_EQ(2 * layout.held(g, Placement::sharded).count, g.count);
      first.push_back(layout.held(g, Placement::sharded).first);
    });
  }
  EXPECT_EQ(first[0], first[2]);
  EXPECT_EQ(first[1], first[3]);
  EXPECT_LT(first[0], first[1]);
}

TEST(Layout, WorkOnAUnitIsStartedOnce) {
  SmallModel model;
  with_layout(2, 0, of_stage(1), model, no_states, [&](const Layout& layout) {
    std::vector<int> groups;
    layout.start(layout.unit(1), [&](Communicator& c, const Group& g) {
      EXPECT_EQ(c.size(), 2);
      groups.push_back(g.index);
    });
    EXPECT_EQ(groups, (std::vector<int>{3, 4, 5}));
  });
}

}  // namespace
}  // namespace ft::zero
