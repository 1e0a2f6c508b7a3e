// The clock of a step, and of its trace, on a device with a queue: the CUDA backend compiled for the host
// runs nothing before the host waits.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/cuda/cuda_ops.h"
#include "engine/ops/trace_ops.h"
#include "engine/ranks/local.h"
#include "tests/cuda_on_cpu/streams.h"
#include "tests/engine/train/plain_model.h"

namespace ft {
namespace {

using namespace test;

constexpr std::int64_t kSize = 3000, kSteps = 3;

class OneVector final : public PlainModel {
 public:
  OneVector() : PlainModel({{"a", kSize}}, DType::f32) {}
  void forward_backward(Ctx& c, ParameterStore& store, const Batch&, const Loss& loss) override {
    const Use use(store, 0, true);
    c.ops.enter("a");
    for (int i = 0; i < 5; ++i) c.ops.run(op::Fill{parameters[0].grad, std::get<CrossEntropy>(loss).scale});
    store.reduce(0, true);
  }
};

struct Seen : Told {
  std::vector<std::size_t> queued;  // works queued when each row was reported
  void progress(const StepRow& row) override {
    Told::progress(row);
    const auto held = cuda_on_cpu::lock();
    queued.push_back(cuda_on_cpu::queued());
  }
};

struct Outcome {
  std::vector<float> weights;
  std::uint64_t waits = 0;
};

std::uint64_t waits_so_far() {
  const auto held = cuda_on_cpu::lock();
  return cuda_on_cpu::waits();
}

Outcome run(Ops& ops, Seen& seen) {
  TrainConfig config;
  config.training.num_train_epochs = 1;
  config.training.learning_rate = 0.05;
  config.checkpointing.save_strategy = SaveStrategy::no;
  OneVector model;
  const Numbers data(numbers(kSteps));
  LocalCommunicator comm(ops);
  ParameterStore store(ops, comm, ZeroStage::of(0), states_of(config.training));
  model.add_units(store);
  store.reserve({.values = 1 << 16, .grads = 1 << 16});
  store.load([](const Parameter&, Tensor y, std::int64_t) { std::fill_n(y.as<float>(), y.numel(), 0.5f); });
  Arena saved(ops.allocate(4096), 4096), scratch(ops.allocate(4096), 4096);
  Ctx context{ops, saved, scratch, {DType::f32}};
  Files files(model);
  Checkpoints checkpoints(model, store, comm, files, "");
  Trainer trainer({.context = context,
                   .model = model,
                   .store = store,
                   .comm = comm,
                   .data = data,
                   .eval = nullptr,
                   .checkpoints = checkpoints,
                   .report = seen,
                   .stop_asked = [] { return false; },
                   .add_to_checkpoint = [](const std::string&) {}},
                  config);
  TrainState state;
  state.batches_per_epoch = data.batches_per_epoch();
  state.accumulation = 1;
  Outcome out{std::vector<float>(kSize)};
  const std::uint64_t before = waits_so_far();
  trainer.run(state);
  out.waits = waits_so_far() - before;
  store.stepping().each_slice([&](const Slice& s) { ops.download(out.weights.data(), s.master); });
  return out;
}

std::unique_ptr<Ops> small_gpu() {
  return make_cuda_ops(0, {.blas = 4096, .dense = 4096, .delta = 4096, .tiles = 65536, .staging = 8192});
}

TEST(Clock, StopsWhenTheOptimizersWorkIsDone) {
  const auto ops = small_gpu();
  Seen seen;
  run(*ops, seen);
  EXPECT_EQ(seen.queued, std::vector<std::size_t>(kSteps, 0));
}

TEST(Clock, TracingWaitsForNothingAndChangesNoBit) {
  const auto ops = small_gpu(), other = small_gpu();
  TraceOps trace(*other, {.calls = true});
  Seen seen, seen_traced;
  const Outcome plain = run(*ops, seen), traced = run(trace, seen_traced);
  EXPECT_EQ(traced.weights, plain.weights);
  EXPECT_EQ(traced.waits, plain.waits);
  EXPECT_GT(trace.calls().size(), 5u * kSteps);
  for (std::size_t i = 1; i < trace.calls().size(); ++i)
    EXPECT_LE(trace.calls()[i - 1].start, trace.calls()[i].start);
}

}  // namespace
}  // namespace ft
