// Parameters and states of a GPU in the host's memory or in a file: the same training to the bit, with steps
// on the host and copies that are waited for as late as possible.
#include <filesystem>

#include "engine/cuda/gpu_depots.h"
#include "engine/ops/null_ops.h"
#include "engine/ranks/overlapped_communicator.h"
#include "engine/ranks/staged_communicator.h"
#include "engine/zero/file_depot.h"
#include "engine/zero/host_pieces.h"
#include "engine/zero/parameter_store.h"
#include "engine/zero/planned.h"
#include "tests/engine/cuda/both.h"
#include "tests/support/ranks.h"

namespace ft::cuda::homes {
namespace {

constexpr int kUnits = 4;
constexpr std::array<StateSpec, 2> kStates{{{.name = "m"}, {.name = "v"}}};
std::span<const StateSpec> adam_states(const Parameter&) { return kStates; }

struct Case {
  int ranks = 1, stage = 0, micro_steps = 2;
  DType dtype = DType::f32;
  Home params = Home::device, states = Home::device;
  bool pinned = true, early = false, delayed = false;
};

Residence residence(Home home, bool pinned) {
  return {
      .home = home, .folder = std::filesystem::temp_directory_path(), .setting = "test", .pinned = pinned};
}

ZeroOptions options_of(const Case& c) {
  return {.stage = ZeroStage::of(c.stage),
          .persist = 8,
          .prefetch = 20'000,
          .window = 1,
          .params_home = residence(c.params, c.pinned),
          .states_home = residence(c.states, c.pinned),
          .delayed = c.delayed,
          .early = c.states != Home::device};
}

// Each unit has a trained weight, a small trained one and a frozen one. The weight's gradient is its value +
// the frozen one's + a number, so that a value that arrives too late, or changes too early, shows.
struct Toy {
  explicit Toy(DType dtype) {
    for (int u = 0; u < kUnits; ++u)
      for (const auto& [what, n, trained] :
           {std::tuple{"w", 9000 + 640 * u, true}, {"n", 8, true}, {"f", 9000 + 640 * u, false}}) {
        Parameter& p = all.emplace_back();
        p.name = str(what, u);
        p.shape = {n};
        p.dtype = dtype;
        p.trainable = trained;
      }
  }
  Parameter& at(int unit, int k) { return all[static_cast<std::size_t>(3 * unit + k)]; }
  void add_units(ParameterStore& store) {
    for (int u = 0; u < kUnits; ++u) store.add_unit(str("unit ", u), {&at(u, 0), &at(u, 1), &at(u, 2)});
  }
  void micro_step(Ops& ops, ParameterStore& store, Tensor wide, float number) {
    std::vector<int> order;
    for (int u = 0; u < kUnits; ++u) order.push_back(u);
    for (int u = kUnits; u-- > 0;) order.push_back(u);
    store.expect(order);
    for (int u = 0; u < kUnits; ++u) const Use use(store, u, false);
    for (int u = kUnits; u-- > 0;) {
      const Use use(store, u, true);
      for (const auto& [of, from] : {std::pair{0, 0}, {0, 2}, {1, 1}}) {
        const Tensor part = wide.elements(0, at(u, of).shape.numel());
        ops.run(op::Cast{part, at(u, from).value});
        ops.run(op::Add{at(u, of).grad, part});
        ops.run(op::Fill{part, number + static_cast<float>(u)});
        ops.run(op::Add{at(u, of).grad, part});
      }
      store.reduce(u, true);
    }
  }
  std::vector<Parameter> all;
};

EarlyStep adam(double grad_scale, int step, bool previous) {
  return {[=](Ops& ops, const FlatRun& r) {
            ops.run(op::AdamW{.master = r.master,
                              .value = r.value,
                              .m = r.states[0],
                              .v = r.states[1],
                              .grad = r.grad,
                              .lr = 0.01,
                              .beta1 = 0.9,
                              .beta2 = 0.99,
                              .eps = 1e-8,
                              .decay = 0.1,
                              .grad_scale = static_cast<float>(grad_scale),
                              .step = step});
          },
          previous};
}

// The steps of a rank; on NullOps for planning.
void steps(const Case& c, Ops& ops, ParameterStore& store, Toy& toy, Tensor wide, int rank, int count) {
  for (int s = 0; s < count; ++s) {
    std::optional<EarlyStep> early;
    if (c.delayed && s > 0) early = adam(0.1, s, true);
    if (c.early && !c.delayed) early = adam(0.1, s + 1, false);
    store.begin_step(early);
    for (int m = 0; m < c.micro_steps; ++m) {
      store.begin_micro_step(m + 1 == c.micro_steps);
      toy.micro_step(ops, store, wide, 0.01f * static_cast<float>(7 * s + 3 * m + rank));
    }
    const double norm = store.grad_norm();
    store.stepping().finish_early();
    if (early || c.delayed) {
      store.publish();
      continue;
    }
    const EarlyStep last = adam(c.early ? 0.1 : 1 / (norm + 1), s + 1, false);
    Ops& where = store.stepping().ops(ops);
    store.stepping().each_run([&](const FlatRun& r) { last.visit(where, r); });
    store.publish();
  }
}

TransientMemory planned(const Case& c) {
  const Device device{Device::Kind::cuda, 0};
  NullOps null(device);
  PlannedCommunicator comm(c.ranks, 0);
  const ZeroOptions zero = options_of(c);
  ParameterStore store(null, comm, zero, adam_states,
                       {planned_depot(zero.params_home, device), planned_depot(zero.states_home, device),
                        zero.early ? std::make_shared<NullOps>() : nullptr});
  Toy toy(c.dtype);
  toy.add_units(store);
  store.reserve(kMeasured);
  steps(c, null, store, toy, {null.allocate(0).get(), DType::f32, {20'000}}, 0, 2);
  store.stepping().each_run([](const FlatRun&) {});  // loading visits the runs too
  return store.transient();
}

struct Outcome {
  std::vector<std::vector<float>> masters;  // by rank
  std::int64_t host = 0, files = 0, device = 0;
};

void train(const Case& c, Ops& ops, Communicator& comm, Outcome& outcome) {
  const ZeroOptions zero = options_of(c);
  ParameterStore store(ops, comm, zero, adam_states,
                       {make_gpu_depot(ops, zero.params_home), make_gpu_depot(ops, zero.states_home),
                        zero.early ? std::make_shared<cpu::CpuOps>(1) : nullptr});
  Toy toy(c.dtype);
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
  const Buffer wide = ops.allocate(80'000);
  steps(c, ops, store, toy, {wide.get(), DType::f32, {20'000}}, comm.rank(), 4);
  std::vector<float>& masters = outcome.masters[static_cast<std::size_t>(comm.rank())];
  store.parts().each_part([&](const Slice& s, HostPieces& pieces) {
    pieces.out_of(s.master, [&](const Tensor& v, std::int64_t) {
      masters.insert(masters.end(), v.as<float>(), v.as<float>() + v.numel());
    });
  });
  // Appends the values, which are computed from the masters.
  for (int u = 0; u < kUnits; ++u) {
    const Use use(store, u, false);
    std::vector<float> value(static_cast<std::size_t>(toy.at(u, 0).shape.numel()));
    const Tensor part(wide.get(), DType::f32, toy.at(u, 0).shape);
    ops.run(op::Cast{part, toy.at(u, 0).value});
    ops.download(value.data(), part);
    masters.insert(masters.end(), value.begin(), value.end());
  }
  if (comm.rank() != 0) return;
  const StoreMemory m = store.memory();
  outcome.host = m.host;
  outcome.files = m.elsewhere;
  outcome.device = m.weights + m.trained + m.gradients + m.optimizer;
}

Outcome run(const Case& c) {
  Outcome outcome;
  outcome.masters.resize(static_cast<std::size_t>(c.ranks));
  rethrow_first(on_threads(c.ranks, [&](Ops& host, Mesh mesh) {
    const auto ops = make_cuda_ops(0, kSmall);
    OverlappedCommunicator comm(std::make_unique<StagedCommunicator>(
        *ops, std::make_unique<MeshCommunicator>(host, std::move(mesh), 20)));
    train(c, *ops, comm, outcome);
  }));
  return outcome;
}

using Ranks = std::pair<int, int>;  // number of ranks, and the stage
class GpuHomes : public testing::TestWithParam<std::tuple<Ranks, DType>> {};
INSTANTIATE_TEST_SUITE_P(Depots, GpuHomes,
                         testing::Combine(testing::Values(Ranks{1, 0}, Ranks{2, 1}, Ranks{2, 2}, Ranks{2, 3}),
                                          testing::Values(DType::f32, DType::bf16)));

TEST_P(GpuHomes, TrainEqually) {
  const auto [world, dtype] = GetParam();
  const auto [ranks, stage] = world;
  Case c{.ranks = ranks, .stage = stage, .dtype = dtype};
  for (const bool early : {false, true}) {
    c.early = early;
    c.params = c.states = Home::device;
    const Outcome want = run(c);
    for (const auto& [params, states] : {std::pair{Home::device, Home::host},
                                         {Home::host, Home::device},
                                         {Home::host, Home::host},
                                         {Home::device, Home::file},
                                         {Home::file, Home::host}}) {
      if (params != Home::device && ranks > 1 && stage < 3) continue;
      c.params = params;
      c.states = states;
      c.pinned = states != Home::host || params != Home::device || stage % 2 == 0;
      const Outcome got = run(c);
      EXPECT_TRUE(got.masters == want.masters)
          << "params " << int(params) << ", states " << int(states) << ", early " << early;
      EXPECT_LT(got.device, want.device);
      EXPECT_EQ(got.files > 0, params == Home::file || states == Home::file);
      EXPECT_GT(got.host, 0);
    }
  }
}

TEST_P(GpuHomes, DelayedStepsAreEqualInEach) {
  const auto [world, dtype] = GetParam();
  const auto [ranks, stage] = world;
  Case c{.ranks = ranks, .stage = stage, .dtype = dtype, .states = Home::host, .delayed = true};
  const Outcome want = run(c);
  c.states = Home::file;
  EXPECT_TRUE(run(c).masters == want.masters);
  if (ranks > 1 && stage < 3) return;
  c.params = c.states = Home::host;
  EXPECT_TRUE(run(c).masters == want.masters);
}

// A tensor of several pieces, the last one short, is copied to the device and back: each element once and to
// its place.
TEST(HostPieces, CopyATensorOfAnySizeToADeviceAndBack) {
  const auto ops = make_cuda_ops(0, kSmall);
  const std::int64_t n = (std::int64_t{5} << 19) + 3;
  const Buffer memory = ops->allocate(n * 4);
  const Tensor x(memory.get(), DType::f32, {n});
  HostPieces pieces(*ops);
  int calls = 0;
  pieces.into(x, [&](const Tensor& piece, std::int64_t first) {
    ++calls;
    for (std::int64_t i = 0; i < piece.numel(); ++i) piece.as<float>()[i] = static_cast<float>(first + i);
  });
  EXPECT_EQ(calls, 3);
  std::int64_t next = 0;
  pieces.out_of(x, [&](const Tensor& piece, std::int64_t first) {
    ASSERT_EQ(first, next);
    for (std::int64_t i = 0; i < piece.numel(); ++i)
      ASSERT_EQ(piece.as<float>()[i], static_cast<float>(next + i));
    next += piece.numel();
  });
  EXPECT_EQ(next, n);
}

}  // namespace
}  // namespace ft::cuda::homes
