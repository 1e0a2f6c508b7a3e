// Delayed updates: every place of the states, stage and number of ranks follows the recurrence of
// docs/offload.md, computed here in f64, and resumes from a checkpoint with the same bits.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "engine/cpu/cpu_ops.h"
#include "engine/train/schedules/list.h"
#include "engine/zero/file_depot.h"
#include "tests/engine/files/temp_folder.h"
#include "tests/engine/train/plain_model.h"
#include "tests/support/ranks.h"

namespace ft {
namespace {

using namespace test;

constexpr std::int64_t kSizes[] = {5000, 300, 9000};
constexpr double kRate = 0.05, kMost = 0.5, kBeta1 = 0.9, kBeta2 = 0.999, kEps = 1e-8, kDecay = 0.1;
constexpr int kWarmup = 5;

double start(std::int64_t i) { return 0.001 * static_cast<double>(i % 700) - 0.3; }
// Returns element i of the gradient of micro-batch `id` at weight w.
double gradient(double w, std::int32_t id, std::int64_t i) {
  return 0.5 * w + 0.01 * std::sin(static_cast<double>(id) + 0.1 * static_cast<double>(i));
}

class Vectors final : public PlainModel {
 public:
  Vectors(DType dtype, std::set<std::int32_t> overflow)
      : PlainModel({{"a", kSizes[0]}, {"b", kSizes[1]}, {"c", kSizes[2]}}, dtype),
        overflow_(std::move(overflow)) {}
  void forward_backward(Ctx& c, ParameterStore& store, const Batch& b, const Loss& loss) override {
    const auto& [sum, scale, smoothing, dynamic, stretches, groups] = std::get<CrossEntropy>(loss);
    *sum.as<double>() += 1;
    for (int u = 3; u-- > 0;) {
      const Use use(store, u, true);
      const Parameter& p = parameters[static_cast<std::size_t>(u)];
      for (std::int64_t i = 0; i < kSizes[u]; ++i) {
        const double w = p.dtype == DType::f32 ? p.value.as<float>()[i] : to_float(p.value.as<f16>()[i]);
        p.grad.as<float>()[i] += static_cast<float>(scale * gradient(w, b.input_ids[0], i));
      }
      if (overflow_.contains(b.input_ids[0])) p.grad.as<float>()[7] = std::numeric_limits<float>::infinity();
      c.ops.enter(p.name);
      store.reduce(u, true);
    }
  }

 private:
  std::set<std::int32_t> overflow_;
};

struct Setting {
  int ranks = 1, stage = 0, micro_steps = 1;
  Home home = Home::host;
  std::int64_t after = 0;
  DType dtype = DType::f32;
  std::set<std::int32_t> overflow = {};  // micro-batches whose gradients overflow
  std::int64_t save_steps = 0;           // 0: it never saves
  std::string output = {}, resume = {};
  int steps = 12;
};

struct Outcome {
  std::vector<double> weights;
  TrainState state;
};

Outcome run_rank(const Setting& run, Ops& ops, Communicator& comm) {
  TrainConfig config;
  TrainingConfig& t = config.training;
  t.fp16 = run.dtype == DType::f16;
  t.loss_scaling.loss_scale = 128;
  t.gradient_accumulation_steps = run.micro_steps;
  t.num_train_epochs = 1;
  t.learning_rate = kRate;
  t.lr_scheduler_type = &schedules::kConstantWithWarmup;
  t.warmup_steps = kWarmup;
  t.max_grad_norm = kMost;
  t.weight_decay = kDecay;
  t.output_dir = run.output;
  config.delayed_update_after = run.after;
  config.checkpointing.save_strategy = run.save_steps ? SaveStrategy::steps : SaveStrategy::no;
  config.checkpointing.save_steps = static_cast<double>(run.save_steps);
  Vectors model(run.dtype, run.overflow);
  const Numbers data(numbers(run.steps * run.ranks * run.micro_steps));
  const Residence home{.home = run.home, .folder = std::filesystem::temp_directory_path(), .setting = "test"};
  const ZeroOptions zero{
      .stage = ZeroStage::of(run.stage), .window = 1, .states_home = home, .delayed = true, .early = true};
  ParameterStore store(ops, comm, zero, states_of(t),
                       {nullptr, make_depot(home), std::make_shared<cpu::CpuOps>(1)});
  model.add_units(store);
  store.reserve({.values = 1 << 20, .grads = 1 << 20, .windows = 1 << 20});
  store.load([](const Parameter&, Tensor y, std::int64_t first) {
    for (std::int64_t i = 0; i < y.numel(); ++i) y.as<float>()[i] = static_cast<float>(start(first + i));
  });
  Arena saved(ops.allocate(4096), 4096), scratch(ops.allocate(4096), 4096);
  Ctx context{ops, saved, scratch, {run.dtype}};
  Files files(model);
  Checkpoints checkpoints(model, store, comm, files, run.output);
  Told told;
  Trainer trainer({.context = context,
                   .model = model,
                   .store = store,
                   .comm = comm,
                   .data = data,
                   .eval = nullptr,
                   .checkpoints = checkpoints,
                   .report = told,
                   .stop_asked = [] { return false; },
                   .add_to_checkpoint = [](const std::string&) {}},
                  config);
  Outcome out;
  out.state.batches_per_epoch = data.batches_per_epoch();
  out.state.accumulation = run.ranks * run.micro_steps;
  if (!run.resume.empty()) out.state = checkpoints.load(open_checkpoint(run.resume));
  trainer.run(out.state);
  store.stepping().each_slice([&](const Slice& s) {
    out.weights.insert(out.weights.end(), s.master.as<float>(), s.master.as<float>() + s.count);
  });
  return out;
}

// Runs all ranks. Returns their weights, sorted, so that stages that shard in different ways can be compared.
Outcome run(const Setting& setting) {
  std::vector<Outcome> all(static_cast<std::size_t>(setting.ranks));
  rethrow_first(on_threads(setting.ranks, [&](Ops& ops, Mesh mesh) {
    MeshCommunicator comm(ops, std::move(mesh), 20);
    all[static_cast<std::size_t>(comm.rank())] = run_rank(setting, ops, comm);
  }));
  for (std::size_t r = 1; r < all.size(); ++r)
    all[0].weights.insert(all[0].weights.end(), all[r].weights.begin(), all[r].weights.end());
  std::sort(all[0].weights.begin(), all[0].weights.end());
  return all[0];
}

// theta' = U_k(theta, g_k), where U_k is AdamW's k-th update with its learning rate, clipping and bias
// correction.
struct Reference {
  struct Update {
    std::vector<double> gradient;
    double rate = 0, clip = 1;
    int number = 1;
  };
  std::vector<double> w, m, v;

  void apply(const Update& u) {
    const double c1 = 1 - std::pow(kBeta1, u.number), c2 = 1 - std::pow(kBeta2, u.number);
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double g = u.clip * u.gradient[i];
      m[i] = kBeta1 * m[i] + (1 - kBeta1) * g;
      v[i] = kBeta2 * v[i] + (1 - kBeta2) * g * g;
      w[i] = w[i] * (1 - u.rate * kDecay) - u.rate * (m[i] / c1) / (std::sqrt(v[i] / c2) + kEps);
    }
  }
};

std::vector<double> expected(const Setting& s) {
  Reference r;
  std::vector<std::int64_t> place;
  for (const std::int64_t size : kSizes)
    for (std::int64_t i = 0; i < size; ++i) {
      r.w.push_back(start(i));
      place.push_back(i);
    }
  r.m.assign(r.w.size(), 0);
  r.v = r.m;
  std::optional<Reference::Update> pending;
  const int batches = s.ranks * s.micro_steps;
  for (int step = 0, taken = 0; step < s.steps; ++step) {
    Reference::Update own{.gradient = std::vector<double>(r.w.size())};
    double squares = 0;
    bool overflow = false;
    for (int b = 0; b < batches; ++b) overflow |= s.overflow.contains(step * batches + b);
    for (std::size_t i = 0; i < r.w.size(); ++i) {
      for (int b = 0; b < batches; ++b)
        own.gradient[i] += gradient(r.w[i], step * batches + b, place[i]) / batches;
      squares += own.gradient[i] * own.gradient[i];
    }
    own.clip = std::min(1.0, kMost / (std::sqrt(squares) + 1e-6));
    own.rate = kRate * std::min(1.0, static_cast<double>(taken) / kWarmup);
    if (pending) r.apply(*pending);
    pending.reset();
    if (overflow) continue;
    own.number = ++taken;
    if (step >= s.after)
      pending = own;
    else
      r.apply(own);
  }
  std::sort(r.w.begin(), r.w.end());
  return r.w;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& want, double bound) {
  ASSERT_EQ(got.size(), want.size());
  double most = 0;
  for (std::size_t i = 0; i < got.size(); ++i) most = std::max(most, std::abs(got[i] - want[i]));
  EXPECT_LT(most, bound);
}

TEST(DelayedTrainer, FollowsTheRecurrence) {
  for (const int ranks : {1, 2})
    for (const int micro_steps : {1, 2})
      for (const std::int64_t after : {0, 4}) {
        Setting s{.ranks = ranks, .micro_steps = micro_steps, .after = after};
        const std::vector<double> want = expected(s);
        Setting never = s;
        never.after = 1000;
        const std::vector<double> usual = expected(never);
        std::vector<double> first[2];  // of stages 0 and 1, and of 2 and 3
        for (int stage = ranks == 1 ? 0 : 1; stage < (ranks == 1 ? 1 : 4); ++stage)
          for (const Home home : {Home::host, Home::file}) {
            s.stage = stage;
            s.home = home;
            const std::vector<double> got = run(s).weights;
            expect_near(got, want, 2e-6);
            double moved = 0;
            for (std::size_t i = 0; i < got.size(); ++i) moved = std::max(moved, std::abs(got[i] - usual[i]));
            EXPECT_GT(moved, 1e-3);
            std::vector<double>& same = first[micro_steps == 1 ? 0 : stage / 2];
            if (same.empty()) same = got;
            EXPECT_TRUE(got == same) << ranks << " ranks, stage " << stage;
          }
      }
}

TEST(DelayedTrainer, ASkippedStepLeavesNothingToApply) {
  Setting s{.ranks = 2, .stage = 2, .dtype = DType::f16, .overflow = {5, 12}};
  for (const std::int64_t after : {0, 4}) {
    s.after = after;
    const Outcome got = run(s);
    EXPECT_EQ(got.state.skipped_steps, 2);
    expect_near(got.weights, expected(s), 2e-3);
  }
}

TEST(DelayedTrainer, GoesOnFromACheckpointWithTheSameBits) {
  for (const int stage : {1, 2, 3})
    for (const std::int64_t after : {0, 4, 7}) {
      const TempFolder folder;
      Setting s{.ranks = 2, .stage = stage, .micro_steps = 2, .home = Home::file, .after = after};
      s.output = folder / "out";
      s.save_steps = 6;
      const Outcome whole = run(s);
      s.resume = s.output + "/checkpoint-6";
      const Outcome resumed = run(s);
      EXPECT_TRUE(resumed.weights == whole.weights) << stage << ' ' << after;
      EXPECT_EQ(resumed.state.delayed.has_value(), true);
      s.home = Home::host;
      EXPECT_TRUE(run(s).weights == whole.weights);
    }
}

}  // namespace
}  // namespace ft
