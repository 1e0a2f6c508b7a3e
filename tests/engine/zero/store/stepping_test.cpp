// Updates of a store: every element once, in windows where data is offloaded, beside a backward pass.
#include "engine/zero/store/stepping.h"

#include <filesystem>
#include <map>

#include "engine/zero/file_depot.h"
#include "tests/engine/zero/store/small_model.h"

namespace ft::zero {
namespace {

constexpr std::array<StateSpec, 1> kMean{{{.name = "mean"}}};
std::span<const StateSpec> mean(const Parameter&) { return kMean; }
constexpr std::array<StateSpec, 2> kRows{
    {{.name = "rows", .kept = Kept::rows, .complete_gradient = true}, {.name = "mean"}}};
std::span<const StateSpec> rows(const Parameter& p) {
  return p.shape.rank == 2 ? std::span<const StateSpec>(kRows) : kMean;
}

// master = 2 master + gradient, also as the value; state = gradient + 1
void update(const FlatRun& run) {
  for (std::int64_t i = 0; i < run.master.numel(); ++i) {
    run.master.as<float>()[i] = 2 * run.master.as<float>()[i] + run.grad.as<float>()[i];
    if (run.value) from_float(run.value.as<bf16>()[i], run.master.as<float>()[i]);
    run.states[0].as<float>()[i] = run.grad.as<float>()[i] + 1;
  }
}

// Expects values after one update of all ranks. They are exact in bf16 too.
void expect_updated(SmallStore& s) {
  for (int u = 0; u < SmallModel::kUnits; ++u) {
    s.residency.acquire(u);
    for (const int which : {0, 1}) {
      const Parameter& p = s.model.at(u, which);
      for (std::int64_t i = 0; i < p.shape.numel(); ++i) {
        ASSERT_EQ(element(p.value, i), 2 * initial(p, i) + s.summed(p, i, 1)) << p.name << " " << i;
      }
    }
    s.residency.release(u);
  }
  s.stepping.each_slice(Placement::sharded, {}, [&](const Slice& slice) {
    for (std::int64_t i = 0; i < slice.count; ++i)
      ASSERT_EQ(element(slice.states[0], i), s.summed(*slice.parameter, slice.first + i, 1) + 1);
  });
}

struct Places {
  bool params, states, file;
};
Homes homes_of(const Places& p) {
  const auto make = [&]() -> std::shared_ptr<Depot> {
    if (!p.file) return std::make_shared<MemoryDepot>();
    return std::make_shared<FileDepot>(std::filesystem::temp_directory_path(), "test");
  };
  return {p.params ? make() : nullptr, p.states ? make() : nullptr, nullptr};
}

class Updates : public testing::TestWithParam<std::tuple<int, int, DType>> {};
TEST_P(Updates, AreVisibleToAllRanks) {
  const auto [ranks, stage, dtype] = GetParam();
  for (const Places& places : {Places{}, {true, false, false}, {false, true, true}, {true, true, true}}) {
    if (places.params && ranks > 1 && stage < 3) continue;
    run_ranks(ranks, true, [&, stage = stage, dtype = dtype](Communicator& comm) {
      ZeroOptions options = of_stage(stage, true);
      options.window = 1;  // the least
      SmallStore s(comm, options, mean, homes_of(places), dtype);
      s.step(1);
      s.stepping.each_run(update);
      s.stepping.publish();
      expect_updated(s);
    });
  }
}
INSTANTIATE_TEST_SUITE_P(Stepping, Updates,
                         testing::Combine(testing::Values(1, 2), testing::Values(0, 2, 3),
                                          testing::Values(DType::f32, DType::bf16)));

// Runs visit every element that this rank updates once, and end where rules change.
TEST(Stepping, RunsHaveOneRule) {
  for (const int ranks : {1, 2})
    run_ranks(ranks, false, [&](Communicator& comm) {
      ZeroOptions options = of_stage(1);
      options.persist = 0;
      SmallStore s(comm, options);
      s.model.at(0, 1).decays = false;
      s.model.at(1, 1).rule.rate = 0.5;
      std::map<std::string, std::int64_t> elements;
      std::int64_t all = 0, visited = 0, undecayed = 0, slower = 0;
      s.step(1);
      s.stepping.each_run([&](const FlatRun& run) {
        EXPECT_EQ(run.grad.numel(), run.master.numel());
        elements[std::string(run.unit)] += run.master.numel();
        undecayed += run.decays ? 0 : run.master.numel();
        slower += run.rule.rate == 0.5 ? run.master.numel() : 0;
      });
      s.layout.each_group([&](const Group& g) { all += g.trained ? s.layout.updated(g).count : 0; });
      for (const auto& [unit, n] : elements) visited += n;
      EXPECT_EQ(elements.size(), 3u);
      EXPECT_EQ(visited, all);
      if (ranks > 1) return;
      EXPECT_EQ(undecayed, 64);  // the vector with its padding
      EXPECT_EQ(slower, 64);
    });
}

TEST(Stepping, PassesAreInWindows) {
  run_ranks(1, false, [](Communicator& comm) {
    ZeroOptions options = of_stage(0);
    options.window = 1;
    SmallStore s(comm, options, mean, homes_of({.params = false, .states = true, .file = true}));
    s.step(1);
    const std::int64_t most = s.layout.window(s.layout.unit(0).groups[1]);
    int windows = 0;
    s.stepping.each_run([&](const FlatRun& run) {
      EXPECT_LE(run.master.numel(), most);
      ++windows;
    });
    EXPECT_GT(windows, 3);
    EXPECT_GT(s.stepping.transient(), 0);
  });
}

// The complete gradient, and the sum of squares of the complete master, on each rank.
TEST(Stepping, UpdatesOfCompleteParameters) {
  for (const int stage : {0, 1, 3})
    run_ranks(2, true, [&](Communicator& comm) {
      SmallStore s(comm, of_stage(stage, true), rows);
      s.step(1);
      int seen = 0;
      s.stepping.each_complete(true, [&](std::span<const CompleteSlice> slices) {
        for (const CompleteSlice& w : slices) {
          const Parameter& p = *w.parameter;
          double squares = 0;
          for (std::int64_t i = 0; i < p.shape.numel(); ++i) {
            ASSERT_EQ(element(w.complete_grad, i), s.summed(p, i, 1));
            squares += double(initial(p, i)) * initial(p, i);
          }
          EXPECT_EQ(w.squares, squares);
          EXPECT_EQ(w.states[0].numel(), p.shape[0]);  // complete on every rank
          EXPECT_EQ(w.states[1].numel(), w.count);
          ++seen;
        }
      });
      EXPECT_EQ(seen, SmallModel::kUnits);  // not the vectors
      int states = 0;
      s.stepping.each_unsharded_state(
          [&](const Parameter&, const StateSpec& spec, const Tensor&, std::int64_t) {
            EXPECT_EQ(spec.name, "rows");
            ++states;
          });
      EXPECT_EQ(states, SmallModel::kUnits);
    });
}

// Units are updated on the store's thread when their gradients are kept, the others at the end.
TEST(Stepping, EarlyUpdatesAreTheSame) {
  for (const int ranks : {1, 2})
    for (const bool file : {false, true})
      run_ranks(ranks, true, [&](Communicator& comm) {
        Homes homes = homes_of({.params = false, .states = true, .file = file});
        homes.host = std::make_shared<cpu::CpuOps>(1);
        SmallStore s(comm, of_stage(2, true), mean, homes);
        EXPECT_TRUE(s.stepping.steps_early());
        std::vector<std::string> order;  // the order in which gradients are complete
        s.step(1, EarlyStep{[&](Ops&, const FlatRun& run) {
                 if (order.empty() || order.back() != run.unit) order.emplace_back(run.unit);
                 update(run);
               }});
        s.stepping.finish_early();
        EXPECT_EQ(order, (std::vector<std::string>{"unit 2", "unit 1", "unit 0"}));
        s.stepping.publish();
        expect_updated(s);
      });
}

// The Ops of the pass compute on the other thread at the same time.
TEST(Stepping, EarlyUpdatesUseOnlyTheOpsOfTheirThread) {
  for (const int micro_steps : {0, 1})
    run_ranks(1, false, [&](Communicator& comm) {
      Homes homes = homes_of({.params = false, .states = true, .file = true});
      homes.host = std::make_shared<cpu::CpuOps>(1);
      SmallStore s(comm, of_stage(0), mean, homes, DType::bf16);
      s.ops.clear();
      s.step(micro_steps, EarlyStep{[](Ops&, const FlatRun& run) { update(run); }});
      s.stepping.finish_early();
      for (const TraceTotal& total : s.ops.totals()) {
        EXPECT_NE(total.op, "cast");
        EXPECT_TRUE(total.op != "fill" || micro_steps > 0);  // a pass clears its gradients
      }
    });
}

// A unit that no backward pass of the step used has gradients of zero, whatever the depot holds.
TEST(Stepping, UnitsWithoutGradientsAreUpdatedAtTheEnd) {
  run_ranks(1, false, [](Communicator& comm) {
    Homes homes = homes_of({.params = false, .states = true, .file = false});
    homes.host = std::make_shared<cpu::CpuOps>(1);
    SmallStore s(comm, of_stage(0), mean, homes);
    s.step(1);
    s.step(0, EarlyStep{[](Ops&, const FlatRun& run) { update(run); }});
    s.stepping.finish_early();
    s.stepping.publish();
    for (const int u : {0, 1, 2})
      for (std::int64_t i = 0; i < s.model.at(u, 0).shape.numel(); ++i)
        ASSERT_EQ(element(s.model.at(u, 0).value, i), 2 * initial(s.model.at(u, 0), i));
  });
}

TEST(Stepping, DelayedUpdatesTakeTheGradientsOfTheStepBefore) {
  run_ranks(2, true, [](Communicator& comm) {
    Homes homes = homes_of({.params = false, .states = true, .file = false});
    homes.host = std::make_shared<cpu::CpuOps>(1);
    ZeroOptions options = of_stage(2, true);
    options.delayed = true;
    SmallStore s(comm, options, mean, homes);
    s.step(1);
    s.step(2, EarlyStep{[](Ops&, const FlatRun& run) { update(run); }, true});
    s.stepping.finish_early();
    s.stepping.publish();
    expect_updated(s);
  });
}

}  // namespace
}  // namespace ft::zero
