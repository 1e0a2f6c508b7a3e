// A ParameterStore under a toy model with invented gradients: the same numbers however parameters are
// gathered, never more memory than planned and never more gathered elements than allowed.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "engine/ops/null_ops.h"
#include "engine/zero/file_depot.h"
#include "engine/zero/host_pieces.h"
#include "engine/zero/parameter_store.h"
#include "engine/zero/planned.h"
#include "tests/support/adam.h"
#include "tests/support/ranks.h"

namespace ft {
namespace {

constexpr int kUnits = 6;
constexpr std::int64_t kFrozen = 300, kSmall = 9;  // elements of a unit's other parameters
std::int64_t weights_of(int unit) { return 700 + 130 * unit; }
constexpr std::array<StateSpec, 2> kStates{{{.name = "m"}, {.name = "v"}}};
std::span<const StateSpec> adam_states(const Parameter&) { return kStates; }

// Each unit has a trained weight, a small trained one and a frozen one.
struct Toy {
  explicit Toy(DType dtype, std::int64_t scale = 1) {
    for (int u = 0; u < kUnits; ++u) {
      const auto add = [&](const char* what, std::int64_t n, bool trained) {
        Parameter& p = all.emplace_back();
        p.name = str(what, u);
        p.shape = {n};
        p.dtype = dtype;
        p.trainable = trained;
      };
      add("w", scale * weights_of(u), true);
      add("n", kSmall, true);
      add("f", kFrozen, false);
    }
  }
  void add_units(ParameterStore& store) {
    for (std::size_t u = 0; u < kUnits; ++u)
      store.add_unit(str("unit ", u), {&all[3 * u], &all[3 * u + 1], &all[3 * u + 2]});
  }
  // Runs a forward and a backward pass. With `rank` < 0 memory is not accessed.
  void micro_step(ParameterStore& store, int rank, int number) {
    std::vector<int> order;
    for (int u = 0; u < kUnits; ++u) order.push_back(u);
    for (int u = kUnits; u-- > 0;) order.push_back(u);
    store.expect(order);
    double sum = 0;
    for (int u = 0; u < kUnits; ++u) {
      const Use use(store, u, false);
      for (std::size_t k = 0; k < 3 && rank >= 0; ++k)
        sum += value(all[3 * static_cast<std::size_t>(u) + k], 0);
    }
    for (int u = kUnits; u-- > 0;) {
      const Use use(store, u, true);
      for (std::size_t k = 0; k < 2 && rank >= 0; ++k) {
        const Parameter& p = all[3 * static_cast<std::size_t>(u) + k];
        auto* g = p.grad.as<float>();
        for (std::int64_t i = 0; i < p.shape.numel(); ++i)
          g[i] += static_cast<float>(std::sin(value(p, i) + sum + 3 * rank + number + 0.01 * double(i)));
      }
      store.reduce(u, true);
    }
  }
  static double value(const Parameter& p, std::int64_t i) {
    return p.dtype == DType::f32 ? p.value.as<float>()[i] : to_float(p.value.as<bf16>()[i]);
  }

  std::vector<Parameter> all;
};

struct Case {
  int ranks = 2, micro_steps = 1;
  bool overlap = true;
  ZeroOptions zero{};
  DType dtype = DType::f32;
  bool params_in_file = false, states_in_file = false;
  std::int64_t scale = 1;  // of the weights' sizes
  bool adam = false;
};

Homes homes_of(const Case& c, const std::function<std::shared_ptr<Depot>()>& make) {
  return {c.params_in_file ? make() : nullptr, c.states_in_file ? make() : nullptr};
}

struct Outcome {
  std::vector<float> trained;  // after the last step
  std::int64_t most_live = 0, sent = 0, resident = 0;
};

TransientMemory planned(const Case& c) {
  NullOps null;
  PlannedCommunicator comm(c.ranks, 0);
  ParameterStore store(null, comm, c.zero, c.adam ? adam_states : no_states,
                       homes_of(c, [] { return std::make_shared<PlannedDepot>(0); }));
  Toy toy(c.dtype, c.scale);
  toy.add_units(store);
  store.reserve(kMeasured);
  store.begin_step();
  for (int m = 0; m < 2; ++m) {
    store.begin_micro_step(m == 1);
    toy.micro_step(store, -1, 0);
  }
  store.stepping().each_run([](const FlatRun&) {});
  return store.transient();
}

// Returns the position of a trained parameter if all are laid out one after another.
std::int64_t place_of(const Toy& toy, const Parameter& p) {
  std::int64_t at = 0;
  for (const Parameter& other : toy.all) {
    if (&other == &p) return at;
    at += other.trainable ? other.shape.numel() : 0;
  }
  return at;
}

void train(const Case& c, Communicator& comm, Outcome& outcome) {
  cpu::CpuOps ops(1);
  Toy toy(c.dtype, c.scale);
  ParameterStore store(ops, comm, c.zero, c.adam ? adam_states : no_states, homes_of(c, [] {
                         return std::make_shared<FileDepot>(std::filesystem::temp_directory_path(), "test");
                       }));
  toy.add_units(store);
  store.reserve(planned(c));
  store.load([](const Parameter& p, Tensor y, std::int64_t first) {
    for (std::int64_t i = 0; i < y.numel(); ++i) {
      const auto v = static_cast<float>(std::cos(0.1 * double(first + i) + double(p.name.back())));
      if (y.dtype == DType::f32)
        y.as<float>()[i] = v;
      else
        from_float(y.as<bf16>()[i], v);
    }
  });
  constexpr int kSteps = 3;
  const std::int64_t before = comm.sent();
  for (int s = 0; s < kSteps; ++s) {
    store.begin_step();
    for (int m = 0; m < c.micro_steps; ++m) {
      store.begin_micro_step(m + 1 == c.micro_steps);
      toy.micro_step(store, comm.rank(), 10 * s + m);
    }
    const double norm = store.grad_norm();
    const auto scale = static_cast<float>(1 / norm);
    if (c.adam)
      store.stepping().each_run([&](const FlatRun& r) { adam_step(ops, r, scale, s + 1); });
    else
      store.stepping().each_slice([&](const Slice& p) {
        ops.run(op::Sgd{.master = p.master, .grad = p.grad, .lr = 0.01f, .decay = 0, .grad_scale = scale});
      });
    store.publish();
  }
  const std::int64_t sent = comm.sent() - before;
  // Ranks are threads: each copies its part to its place.
  store.parts().each_part([&](const Slice& p, HostPieces& pieces) {
    pieces.out_of(p.master, [&](const Tensor& v, std::int64_t at) {
      std::copy_n(v.as<float>(), v.numel(),
                  outcome.trained.begin() + place_of(toy, *p.parameter) + p.first + at);
    });
  });
  if (comm.rank() != 0) return;
  outcome.sent = sent / kSteps;
  outcome.most_live = store.residency().most_live();
  const StoreMemory m = store.memory();
  outcome.resident = m.weights + m.trained + m.gradients + m.optimizer;
}

Outcome run(const Case& c) {
  Outcome outcome;
  const Toy toy(c.dtype, c.scale);
  outcome.trained.assign(static_cast<std::size_t>(place_of(toy, {})), NAN);
  run_ranks(c.ranks, c.overlap, [&](Communicator& comm) { train(c, comm, outcome); });
  return outcome;
}

ZeroOptions options(int stage, std::int64_t prefetch = 0, bool overlap = false) {
  return {.stage = ZeroStage::of(stage), .prefetch = prefetch, .overlap = overlap};
}

// Values, masters, states and gradients in files, in windows smaller and larger than the weights.
class Elsewhere : public testing::TestWithParam<std::tuple<int, DType, int>> {};
TEST_P(Elsewhere, IsTheSameTraining) {
  const auto [ranks, dtype, stage] = GetParam();
  const auto with = [&](bool params, bool states, std::int64_t window) {
    ZeroOptions zero = options(stage, 20'000, stage % 2 == 0);
    zero.window = window;
    zero.persist = kSmall;
    return run({ranks, 2, stage % 2 == 0, zero, dtype, params, states, 9, window == 1});
  };
  for (const std::int64_t window : {1, 1 << 20}) {
    const Outcome want = with(false, false, window);
    ASSERT_GT(want.trained.size(), 50'000u);
    for (const auto& [params, states] : {std::pair{true, false}, {false, true}, {true, true}}) {
      if (params && ranks > 1 && stage < 3) continue;
      const Outcome got = with(params, states, window);
      EXPECT_TRUE(got.trained == want.trained)
          << "params " << params << ", states " << states << ", window " << window;
      if (params && states) {
        EXPECT_LT(got.resident, want.resident / 10);
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(ParameterStore, Elsewhere,
                         testing::Combine(testing::Values(1, 2), testing::Values(DType::f32, DType::bf16),
                                          testing::Range(0, 4)));

TEST(ParameterStore, OverlapChangesNoBit) {
  for (const int ranks : {1, 2, 3})
    for (const int micro_steps : {1, 3})
      for (const DType dtype : {DType::f32, DType::bf16})
        for (int stage = 0; stage < 4; ++stage) {
          const auto with = [&](bool overlap, std::int64_t prefetch) {
            return run({ranks, micro_steps, overlap, options(stage, prefetch, overlap), dtype}).trained;
          };
          const std::vector<float> want = with(false, 0);
          ASSERT_GT(want.size(), 6000u);
          for (const std::int64_t prefetch : {0, 1, 2500, 1'000'000})
            EXPECT_TRUE(with(true, prefetch) == want)
                << ranks << " ranks, stage " << stage << ", " << prefetch;
        }
}

TEST(ParameterStore, StagesAreTheSame) {
  for (const std::int64_t persist : {0, 9, 700, 100'000})
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const auto with = [&](int stage) {
        ZeroOptions o = options(stage, 2500, true);
        o.persist = persist;
        return run({3, 1, true, o, dtype}).trained;
      };
      const std::vector<float> want = with(0);
      for (int stage = 1; stage < 4; ++stage) EXPECT_TRUE(with(stage) == want) << stage;
    }
}

constexpr std::int64_t kOneUnit = 700 + 130 * (kUnits - 1) + kSmall + kFrozen;  // of the largest unit

TEST(ParameterStore, NoMoreIsGatheredThanAllowed) {
  std::int64_t all = 0;
  for (int u = 0; u < kUnits; ++u) all += weights_of(u) + kSmall + kFrozen;
  const auto live = [](std::int64_t prefetch, std::int64_t most, std::int64_t persist) {
    ZeroOptions o = options(3, prefetch, true);
    o.max_live = most;
    o.persist = persist;
    return run({2, 1, true, o}).most_live;
  };
  EXPECT_EQ(live(0, all, 0), kOneUnit);
  EXPECT_GT(live(1, all, 0), kOneUnit);  // one unit is prefetched
  EXPECT_LE(live(1, all, 0), 2 * kOneUnit);
  EXPECT_EQ(live(1'000'000, all, 0), all);  // everything
  EXPECT_LE(live(1'000'000, 4000, 0), 4000);
  EXPECT_GT(live(1'000'000, 4000, 0), 2 * kOneUnit - 800);
  EXPECT_EQ(live(1'000'000, 10, 0), kOneUnit);  // a unit in use is gathered even beyond the limit
  EXPECT_EQ(live(0, all, 300), kOneUnit + (kUnits - 1) * (kSmall + kFrozen));
  EXPECT_EQ(live(0, all, 100'000), 0);  // nothing is ever gathered
}

// Bytes sent: 2 Psi (N-1)/N, or three times Psi in stage 3, for parameters that are not persistent; includes
// padding to 256 bytes a rank.
TEST(ParameterStore, SendsTheBytesOfTheFormulas) {
  constexpr std::int64_t N = 3;
  const auto up = [](std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; };
  std::int64_t trained = 0, frozen = 0;
  for (int u = 0; u < kUnits; ++u) {
    trained += up(up(weights_of(u), 64) + up(kSmall, 64), 64 * N);
    frozen += up(kFrozen, 64 * N);
  }
  const std::int64_t norm = 8 * (N - 1);  // sent by the norm, whose sum goes through rank 0 or 2
  const auto sent = [](int stage, int micro_steps) {
    return run({static_cast<int>(N), micro_steps, true, options(stage, 1, true)}).sent;
  };
  const std::int64_t psi = 4 * trained * (N - 1) / N, phi = 4 * frozen * (N - 1) / N;
  const auto near = [&](std::int64_t got, std::int64_t want) {
    EXPECT_GE(got, want);
    EXPECT_LE(got, want + 2 * norm);
  };
  near(sent(0, 1), 2 * psi);
  near(sent(1, 1), 2 * psi);
  near(sent(2, 1), 2 * psi);
  near(sent(3, 1), 3 * psi + 2 * phi);
  near(sent(1, 4), 2 * psi);
  near(sent(2, 4), 5 * psi);
  near(sent(3, 4), 4 * (3 * psi + 2 * phi));
}

// Groups of two of the four ranks: a rank holds as much as one of two ranks, and sums are the same except for
// rounding.
TEST(ParameterStore, GroupsShardAmongThemselves) {
  for (int stage = 1; stage < 4; ++stage)
    for (const int micro_steps : {1, 3}) {
      const Outcome all = run({4, micro_steps, true, options(stage, 1, true)});
      ZeroOptions o = options(stage, 1, true);
      o.group = 2;
      const Outcome groups = run({4, micro_steps, true, o});
      const Outcome pair = run({2, 1, true, options(stage, 1, true)});
      EXPECT_EQ(groups.resident, pair.resident);
      ASSERT_EQ(groups.trained.size(), all.trained.size());
      for (std::size_t i = 0; i < all.trained.size(); ++i)
        ASSERT_NEAR(groups.trained[i], all.trained[i], 2e-6) << i;
      o.overlap = false;
      EXPECT_TRUE(run({4, micro_steps, false, o}).trained == groups.trained);
      o.group = 1;
      EXPECT_EQ(run({4, micro_steps, true, o}).resident, run({1, 1, true, options(0)}).resident);
    }
}

TEST(ParameterStore, UnitsAreUsedInTheExpectedOrder) {
  cpu::CpuOps ops(1);
  run_ranks(1, false, [&](Communicator& comm) {
    ParameterStore store(ops, comm, ZeroStage::of(0));
    Toy toy(DType::f32);
    toy.add_units(store);
    store.reserve();
    store.expect({0, 1});
    { const Use use(store, 0, false); }
    EXPECT_THROW(store.acquire(2, false), InternalError);
  });
}

}  // namespace
}  // namespace ft
