// NCCL's collectives during computation, with a stand-in for NCCL whose ranks are threads with a GPU each,
// and runs that lose a rank.
#include <gtest/gtest.h>

#include "engine/core/environment.h"
#include "engine/cuda/nccl/nccl_communicator.h"
#include "engine/zero/parameter_store.h"
#include "engine/zero/planned.h"
#include "tests/cuda_on_cpu/nccl.h"
#include "tests/engine/cuda/both.h"
#include "tests/engine/cuda/collectives.h"
#include "tests/support/adam.h"
#include "tests/support/ranks.h"

namespace ft::cuda {
namespace {

using cuda_on_cpu::NcclFault;

class Nccl : public testing::Test {
 protected:
  Nccl() { cuda_on_cpu::nccl_installed(true); }
  ~Nccl() override {
    cuda_on_cpu::nccl_fault({});
    cuda_on_cpu::nccl_installed(false);
  }
};

constexpr std::int64_t kBucket = 150;  // elements that are sent in 16 bits at once: sums go in pieces

std::vector<std::exception_ptr> catching(int ranks, double seconds,
                                         const std::function<void(Ops&, Communicator&)>& body,
                                         const Wire& wire = {}) {
  return on_threads(ranks, [&](Ops& host, Mesh mesh) {
    const auto ops = make_cuda_ops(mesh.rank, kSmall);
    const auto comm = make_nccl_communicator(
        *ops, std::make_unique<MeshCommunicator>(host, std::move(mesh), seconds), seconds, wire, kBucket);
    body(*ops, *comm);
  });
}
void on_gpus(int ranks, const std::function<void(Ops&, Communicator&)>& body, const Wire& wire = {}) {
  rethrow_first(catching(ranks, 20, body, wire));
}

// NVLink's switches add up in an order that differs from run to run, so ft turns them off by default.
TEST_F(Nccl, SumsInSwitchesAreTheUsersChoice) {
  const auto started_with = [](const char* algorithms, const char* nvls) {
    set_variable("NCCL_ALGO", algorithms);
    set_variable("NCCL_NVLS_ENABLE", nvls);
    on_gpus(2, [](Ops&, Communicator& c) { c.barrier(); });
    return cuda_on_cpu::nccl_nvls();
  };
  EXPECT_EQ(started_with("", "1"), "1");
  EXPECT_EQ(started_with("", "2"), "2");
  EXPECT_EQ(started_with("NVLS", ""), "");
  EXPECT_EQ(started_with("", ""), "0");
}

// Two numbers have one sum in either order.
TEST_F(Nccl, TwoRanksHaveTheBitsOfCpus) {
  for (const Wire& wire : {Wire{}, Wire{DType::bf16, 2}, Wire{DType::f16, 0.25f}}) {
    std::vector<Bytes> cpu(2), gpu(2);
    rethrow_first(on_threads(2, [&](Ops& ops, Mesh mesh) {
      const auto r = static_cast<std::size_t>(mesh.rank);
      MeshCommunicator comm(ops, std::move(mesh), 20, MeshCommunicator::kAnyBucket, wire);
      cpu[r] = results(ops, comm, {DType::f32, DType::f64});
    }));
    const auto body = [&](Ops& ops, Communicator& c) {
      gpu[static_cast<std::size_t>(c.rank())] = results(ops, c, {DType::f32, DType::f64});
      EXPECT_EQ(c.via(), "NCCL 2.28.9");
      EXPECT_EQ(c.memory(), wire.dtype == DType::f32 ? 0 : 2 * kBucket);
    };
    on_gpus(2, body, wire);
    EXPECT_EQ(gpu, cpu) << name_of(wire.dtype);
  }
}

// With three ranks sums are rounded twice on the way; bf16 keeps 8 bits.
TEST_F(Nccl, SumsIn16BitsAreNearly) {
  const auto body = [](Ops& ops, Communicator& c) {
    There x(ops, DType::f32, values(DType::f32, c.rank(), 500));
    c.all_reduce(x.tensor);
    Bytes got;
    x.download(got);
    for (std::size_t i = 0; i < 500; ++i) {
      double want = 0, size = 0;
      for (int r = 0; r < 3; ++r) {
        const auto part =
            static_cast<double>(reinterpret_cast<const float*>(values(DType::f32, r, 500).data())[i]);
        want += part;
        size += std::abs(part);
      }
      EXPECT_NEAR(reinterpret_cast<const float*>(got.data())[i], want, size / 128) << i;
    }
  };
  on_gpus(3, body, {DType::bf16, 3});
}

TEST_F(Nccl, SumsInBf16AreRefused) {
  on_gpus(2, [](Ops& ops, Communicator& c) {
    There x(ops, DType::bf16, values(DType::bf16, c.rank(), 8));
    EXPECT_THROW(c.all_reduce(x.tensor), InternalError);
    c.barrier();
  });
}

TEST_F(Nccl, SendsThePlannedBytes) {
  for (const Wire& wire : {Wire{}, Wire{DType::bf16, 3}}) {
    const auto body = [&](Ops& ops, Communicator& c) {
      There all(ops, DType::f32, values(DType::f32, c.rank(), 3000)), mine(ops, DType::f32, Bytes(4000));
      PlannedCommunicator plan(3, 0, wire.dtype);
      const std::int64_t before = c.sent();
      for (Communicator* one : {&c, static_cast<Communicator*>(&plan)}) {
        one->reduce_scatter(mine.tensor, all.tensor);
        one->all_gather(all.tensor, mine.tensor);
        one->all_reduce(all.tensor);
      }
      EXPECT_EQ(c.sent() - before, plan.sent());
      EXPECT_EQ(plan.sent(), wire.dtype == DType::f32 ? 32000 : 20000);
    };
    on_gpus(3, body, wire);
  }
}

// A collective sees results of operations before start(), and operations after finish() see its result.
// Groups of ranks take turns with the world.
TEST_F(Nccl, WaitsForTheComputationAndIsWaitedFor) {
  on_gpus(4, [](Ops& ops, Communicator& c) {
    const auto pair = c.split({.members = {c.rank() / 2 * 2, c.rank() / 2 * 2 + 1}});
    EXPECT_EQ(pair->size(), 2);
    EXPECT_EQ(pair->rank(), c.rank() % 2);
    There x(ops, DType::f32, Bytes(4000)), y(ops, DType::f32, Bytes(4000));
    for (int i = 1; i <= 10; ++i) {
      Communicator& now = i % 2 ? c : *pair;
      ops.run(op::Fill{x.tensor, static_cast<float>(i)});
      const auto ticket = now.start([&](Communicator& in_work) {
        in_work.enter("a unit");
        in_work.all_reduce(x.tensor);
        in_work.all_reduce(x.tensor);
      });
      ops.run(op::Fill{y.tensor, 1});
      now.finish(ticket);
      ops.run(op::Add{y.tensor, x.tensor});
      c.all_reduce(y.tensor);
      std::vector<float> got(1000);
      ops.download(got.data(), y.tensor);
      const int n = now.size();
      ASSERT_EQ(got, std::vector<float>(1000, static_cast<float>(4 * (1 + i * n * n)))) << i;
    }
  });
}

// Trains two units for three steps in a ZeRO stage. Returns rank 0's weights at the end.
std::vector<float> trained(Ops& ops, Communicator& comm, int stage) {
  std::vector<Parameter> p(4);
  for (std::size_t i = 0; i < p.size(); ++i) {
    p[i].name = str("p", i);
    p[i].shape = {static_cast<std::int64_t>(7 + 50 * i)};
    p[i].trainable = i != 1;
  }
  static constexpr std::array<StateSpec, 2> kStates{{{.name = "m"}, {.name = "v"}}};
  ParameterStore store(ops, comm, ZeroOptions{.stage = ZeroStage::of(stage), .prefetch = 1000},
                       [](const Parameter&) { return std::span<const StateSpec>(kStates); });
  store.add_unit("first", {&p[0], &p[1]});
  store.add_unit("second", {&p[2], &p[3]});
  store.reserve({.values = 1 << 16, .grads = 1 << 16});
  store.load([](const Parameter&, Tensor y, std::int64_t first) {
    for (std::int64_t i = 0; i < y.numel(); ++i) y.as<float>()[i] = static_cast<float>(first + i) * 0.01f;
  });
  for (int step = 1; step <= 3; ++step) {
    comm.at_step(step);
    store.begin_step();
    store.begin_micro_step(true);
    store.expect({0, 1, 1, 0});
    for (const int unit : {0, 1}) const Use forwards(store, unit, false);
    for (const int unit : {1, 0}) {
      const Use backwards(store, unit, true);
      for (Parameter& q : p)
        if (q.trainable && (q.name == "p0") == (unit == 0))
          for (int times = 0; times <= comm.rank(); ++times) ops.run(op::Add{q.grad, q.value});
      store.reduce(unit, true);
    }
    const double norm = store.grad_norm();
    EXPECT_GT(norm, 0);
    store.stepping().each_slice([&](const Slice& s) { adam_step(ops, s, 1, step); });
    store.publish();
  }
  std::vector<float> out;
  for (const int unit : {0, 1}) {
    const Use use(store, unit, false);
    for (Parameter& q : p) {
      if ((unit == 0) != (q.name == "p0" || q.name == "p1")) continue;
      out.resize(out.size() + static_cast<std::size_t>(q.shape.numel()));
      ops.download(out.data() + out.size() - q.shape.numel(), q.value);
    }
  }
  return out;
}

TEST_F(Nccl, StagesTrainEqually) {
  std::vector<std::vector<float>> got(4);
  std::vector<float> cpu;
  for (int stage = 0; stage < 4; ++stage)
    on_gpus(2, [&](Ops& ops, Communicator& c) {
      auto all = trained(ops, c, stage);
      if (c.rank() == 0) got[static_cast<std::size_t>(stage)] = std::move(all);
    });
  rethrow_first(on_threads(2, [&](Ops& ops, Mesh mesh) {
    MeshCommunicator comm(ops, std::move(mesh), 20);
    auto all = trained(ops, comm, 0);
    if (comm.rank() == 0) cpu = std::move(all);
  }));
  ASSERT_EQ(got[0].size(), cpu.size());
  for (std::size_t i = 0; i < cpu.size(); ++i) EXPECT_NEAR(got[0][i], cpu[i], 1e-5) << i;
  for (const std::size_t stage : {1, 2, 3}) EXPECT_EQ(got[stage], got[0]) << stage;
}

// Steps with one collective each; every rank waits for it.
void steps(Ops& ops, Communicator& c, int count, const std::function<void(int step)>& before = {}) {
  There x(ops, DType::f32, values(DType::f32, c.rank(), 1000));
  for (int i = 1; i <= count; ++i) {
    if (before) before(i);
    c.at_step(i);
    c.enter("model.layers.0");
    c.all_reduce(x.tensor);
    ops.synchronize();
  }
}

TEST_F(Nccl, ADeadRankIsNamedByAllOthers) {
  const int aborted = cuda_on_cpu::nccl_aborted();
  const auto thrown = catching(3, 20, [](Ops& ops, Communicator& c) {
    steps(ops, c, 5, [&](int step) {
      if (c.rank() == 1 && step == 3) throw std::runtime_error("dies");
    });
  });
  for (const std::size_t r : {0, 2}) {
    const Said s = said(thrown[r]);
    EXPECT_EQ(s.code, Exit::peer_lost) << r << s.what;
    EXPECT_TRUE(s.what.starts_with("rank 1 (a thread) ")) << s.what;
    EXPECT_NE(s.what.find("at step "), std::string::npos) << s.what;
  }
  EXPECT_EQ(cuda_on_cpu::nccl_aborted() - aborted, 3);
}

TEST_F(Nccl, ARankThatDoesNotComeIsNamedInTime) {
  const auto start = Clock::now();
  const auto thrown = catching(3, 1.5, [](Ops& ops, Communicator& c) {
    steps(ops, c, 4, [&](int step) {
      if (c.rank() == 2 && step == 3) std::this_thread::sleep_for(std::chrono::seconds(4));
    });
  });
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(20));
  for (const std::size_t r : {0, 1}) {
    const Said s = said(thrown[r]);
    EXPECT_EQ(s.code, Exit::hang) << r << s.what;
    EXPECT_TRUE(
        s.what.starts_with("rank 2 (a thread) has not answered for 1.5 s, at step 3, in all_reduce number "))
        << s.what;
    EXPECT_NE(s.what.find(" of model.layers.0\n  it is alive, at step 2, after all_reduce number "),
              std::string::npos)
        << s.what;
  }
}

// All hosts have launched the collective, but one GPU never begins it.
TEST_F(Nccl, ACollectiveThatNeverEndsEndsTheRun) {
  cuda_on_cpu::nccl_fault({.rank = 1, .after = 2, .stuck = true});
  const auto start = Clock::now();
  const auto thrown = catching(2, 1.5, [](Ops& ops, Communicator& c) { steps(ops, c, 4); });
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(20));
  for (const auto& t : thrown) {
    const Said s = said(t);
    EXPECT_EQ(s.code, Exit::hang) << s.what;
    EXPECT_TRUE(
        s.what.starts_with("a GPU, or a network between them, has not answered for 1.5 s; all ranks are "
                           "at step 3, in all_reduce number "))
        << s.what;
  }
}

TEST_F(Nccl, AnErrorOfNcclEndsTheRun) {
  cuda_on_cpu::nccl_fault({.rank = 0, .after = 3, .stuck = true, .breaks = true});
  const auto thrown = catching(2, 20, [](Ops& ops, Communicator& c) { steps(ops, c, 5); });
  for (const auto& t : thrown) {
    const Said s = said(t);
    EXPECT_EQ(s.code, Exit::peer_lost) << s.what;
    EXPECT_NE(s.what.find("is lost to NCCL"), std::string::npos) << s.what;
  }
}

TEST_F(Nccl, AStartWithoutARankEndsInTime) {
  cuda_on_cpu::nccl_fault({.rank = 1, .no_start = true});
  const auto thrown = catching(2, 1, [](Ops&, Communicator&) { ADD_FAILURE() << "started"; });
  for (const auto& t : thrown) {
    const Said s = said(t);
    EXPECT_EQ(s.code, Exit::hang) << s.what;
    EXPECT_NE(s.what.find("of the start of NCCL"), std::string::npos) << s.what;
  }
}

}  // namespace
}  // namespace ft::cuda
