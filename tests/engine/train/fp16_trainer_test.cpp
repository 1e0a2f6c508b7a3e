// Steps that the Trainer skips, with a model of one vector, whose gradients overflow in steps that the test
// chooses: in fp16, and by training.on_nonfinite. On all ranks the result is as if these steps had not
// existed, except for the loss scale.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "engine/train/schedules/list.h"
#include "tests/engine/files/temp_folder.h"
#include "tests/engine/train/plain_model.h"
#include "tests/support/ranks.h"

namespace ft {
namespace {

using namespace test;

using Ids = std::set<std::int32_t>;

constexpr std::int64_t kSize = 600;

// Numbers of the micro-batches whose gradients overflow, and of those whose loss is NaN.
struct Happenings {
  Ids overflow{}, no_loss{};
  bool always_overflow = false;
};

class Vector final : public PlainModel {
 public:
  explicit Vector(Happenings h) : PlainModel({{"w", kSize}}, DType::f16), happenings_(std::move(h)) {}
  void forward_backward(Ctx& c, ParameterStore& store, const Batch& b, const Loss& loss) override {
    const auto& [sum, scale, smoothing, dynamic, stretches, groups] = std::get<CrossEntropy>(loss);
    const Use use(store, 0, true);
    Parameter& p = parameters[0];
    const std::int32_t id = b.input_ids[0];
    *sum.as<double>() += happenings_.no_loss.contains(id) ? NAN : 1.0 / (1 + id % 5);
    const bool overflow = happenings_.always_overflow || happenings_.overflow.contains(id);
    for (std::int64_t i = 0; i < kSize; ++i) {
      const float w = to_float(p.value.as<f16>()[i]);
      f16 d;  // the gradient of an activation, in f16
      from_float(d, scale * (overflow && i == 7 ? 1e6f : 0.1f * w + 0.01f * static_cast<float>(id % 7)));
      p.grad.as<float>()[i] += to_float(d);
    }
    c.ops.enter("w");
    store.reduce(0, true);
  }

 private:
  Happenings happenings_;
};

struct Course {
  std::vector<float> weights;
  TrainState state;
  std::vector<StepRow> rows;
  std::vector<std::string> notes;
};

struct Setting {
  std::vector<std::int32_t> ids;
  Happenings happenings = {};
  int ranks = 1, stage = 0;
  std::int64_t save_steps = 0;  // 0: it never saves
  std::string output = {}, resume = {};
  std::int64_t max_shard_bytes = kMaxShardBytes;
  LossScaling scaling = {};
  bool fp16 = true;
  OnNonFinite on_nonfinite = OnNonFinite::stop;
};

// Trains on one rank and returns its results.
Course run_rank(const Setting& run, Ops& ops, Communicator& comm) {
  TrainConfig config;
  config.training.fp16 = run.fp16;
  config.training.on_nonfinite = run.on_nonfinite;
  config.training.max_nonfinite_steps = 3;
  config.training.loss_scaling = run.scaling;
  config.training.num_train_epochs = 1;
  config.training.learning_rate = 0.05;
  config.training.lr_scheduler_type = &schedules::kConstantWithWarmup;
  config.training.warmup_steps = 9;
  config.training.max_grad_norm = 0.5;
  config.training.output_dir = run.output;
  config.checkpointing.save_strategy = run.save_steps ? SaveStrategy::steps : SaveStrategy::no;
  config.checkpointing.save_steps = static_cast<double>(run.save_steps);
  Vector model(run.happenings);
  const Numbers data(run.ids);
  ParameterStore store(ops, comm, ZeroStage::of(run.stage), states_of(config.training));
  model.add_units(store);
  store.reserve({.values = 1 << 16, .grads = 1 << 16});
  store.load([](const Parameter&, Tensor y, std::int64_t first) {
    for (std::int64_t i = 0; i < y.numel(); ++i) y.as<float>()[i] = 0.001f * static_cast<float>(first + i);
  });
  Arena saved(ops.allocate(4096), 4096), scratch(ops.allocate(4096), 4096);
  Ctx context{ops, saved, scratch, {DType::f16}};
  Files files(model);
  Checkpoints checkpoints(model, store, comm, files, run.output, run.max_shard_bytes);
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
  Course course;
  course.state.batches_per_epoch = data.batches_per_epoch();
  course.state.accumulation = run.ranks;
  if (!run.resume.empty()) course.state = checkpoints.load(open_checkpoint(run.resume));
  trainer.run(course.state);
  store.stepping().each_slice([&](const Slice& s) {
    course.weights.insert(course.weights.end(), s.master.as<float>(), s.master.as<float>() + s.count);
  });
  course.rows = told.rows;
  course.notes = told.notes;
  return course;
}

std::vector<Course> run_all(const Setting& run) {
  std::vector<Course> all(static_cast<std::size_t>(run.ranks));
  rethrow_first(on_threads(run.ranks, [&](Ops& ops, Mesh mesh) {
    MeshCommunicator comm(ops, std::move(mesh), 20);
    all[static_cast<std::size_t>(comm.rank())] = run_rank(run, ops, comm);
  }));
  return all;
}

Setting skipping(std::vector<std::int32_t> ids) {
  return {.ids = std::move(ids), .fp16 = false, .on_nonfinite = OnNonFinite::skip};
}

TEST(NonFinite, ASkippedStepHasNeverBeenOnAnyRank) {
  for (const int ranks : {1, 2})
    for (const int stage : {0, 1, 2, 3}) {
      // Steps 3 and 5 (from 0) have gradients, and step 6 a loss, that are not finite, on the last rank only.
      Setting run = skipping(numbers(20 * ranks));
      run.ranks = ranks, run.stage = stage;
      Setting without = run;
      for (const std::int32_t step : {3, 5, 6}) {
        (step == 6 ? run.happenings.no_loss : run.happenings.overflow).insert((step + 1) * ranks - 1);
        for (int r = 0; r < ranks; ++r) std::erase(without.ids, step * ranks + r);
      }
      const std::vector<Course> got = run_all(run), want = run_all(without);
      for (std::size_t r = 0; r < got.size(); ++r) {
        EXPECT_EQ(got[r].weights, want[r].weights) << ranks << " ranks, stage " << stage;
        EXPECT_EQ(got[r].state.nonfinite_steps, 3);
        EXPECT_TRUE(std::isfinite(got[r].state.run_loss_sum));
      }
    }
}

TEST(NonFinite, StepsAreCountedAcrossAResumption) {
  const TempFolder folder;
  Setting run = skipping(numbers(20));
  run.happenings.overflow = {2, 4, 9};
  run.output = folder.path(), run.save_steps = 5;
  const Course whole = run_all(run)[0];
  Setting rest = run;
  rest.resume = folder / "checkpoint-5", rest.save_steps = 0;
  const Course resumed = run_all(rest)[0];
  EXPECT_EQ(resumed.weights, whole.weights);
  EXPECT_EQ(resumed.state.nonfinite_steps, 3);
  rest.happenings.overflow.insert(12);
  EXPECT_THROW(run_all(rest), UserError);  // one too many
}

TEST(NonFinite, AStepEndsTheRunUnlessItIsToBeSkipped) {
  Setting run = skipping(numbers(20));
  run.happenings.overflow = {2};
  run.on_nonfinite = OnNonFinite::stop;
  EXPECT_THROW(run_all(run), UserError);
}

TEST(Fp16Trainer, ASkippedStepHasNeverBeenOnAnyRank) {
  for (const int ranks : {1, 2})
    for (const int stage : {0, 1, 2, 3}) {
      // Steps 3, 5 and 6 (from 0) overflow, on the last rank only.
      Setting run{.ids = numbers(20 * ranks), .ranks = ranks, .stage = stage};
      Setting without = run;
      for (const std::int32_t step : {3, 5, 6}) {
        run.happenings.overflow.insert((step + 1) * ranks - 1);
        for (int r = 0; r < ranks; ++r) std::erase(without.ids, step * ranks + r);
      }
      const std::vector<Course> got = run_all(run), want = run_all(without);
      for (std::size_t r = 0; r < got.size(); ++r) {
        EXPECT_EQ(got[r].weights, want[r].weights) << ranks << " ranks, stage " << stage;
        EXPECT_EQ(got[r].state.step, 20);
        EXPECT_EQ(got[r].state.skipped_steps, 3);
        ASSERT_EQ(got[r].notes.size(), 3u);
        EXPECT_EQ(got[r].notes[0],
                  "step 4 is skipped: its gradients overflow float16 at a loss scale of 65536; the next has "
                  "65536");
        EXPECT_EQ(got[r].notes[2],
                  "step 7 is skipped: its gradients overflow float16 at a loss scale of 32768; the next has "
                  "16384");
        EXPECT_EQ(got[r].rows[7].loss_scaling, (LossScalingRow{16384, 3}));
        EXPECT_FALSE(std::isfinite(got[r].rows[6].grad_norm));
        // The schedule did not advance, and the norm is the unscaled gradient's.
        EXPECT_EQ(got[r].rows[7].learning_rate, want[r].rows[4].learning_rate);
        EXPECT_EQ(got[r].rows[7].grad_norm, want[r].rows[4].grad_norm);
      }
    }
}

TEST(Fp16Trainer, ACheckpointHoldsTheScale) {
  const TempFolder folder;
  Setting run{.ids = numbers(24), .happenings = {.overflow = {2, 4, 9, 15}}};
  run.output = folder / "out";
  run.save_steps = 10;
  run.max_shard_bytes = 4 * kSize;  // a file for each state
  const Course whole = run_all(run)[0];
  run.resume = run.output + "/checkpoint-10";
  EXPECT_TRUE(path_exists(run.resume + "/optimizer-00002-of-00002.safetensors"));
  const Course resumed = run_all(run)[0];
  EXPECT_EQ(resumed.weights, whole.weights);
  EXPECT_EQ(resumed.state.loss_scaler, whole.state.loss_scaler);
  EXPECT_EQ(resumed.state.loss_scaler->scale, 8192);
  EXPECT_EQ(resumed.state.skipped_steps, 4);
  ASSERT_EQ(resumed.rows.size(), 14u);
  for (std::size_t i = 0; i < resumed.rows.size(); ++i) {
    EXPECT_EQ(resumed.rows[i].loss_scaling, whole.rows[i + 10].loss_scaling);
    EXPECT_EQ(resumed.rows[i].learning_rate, whole.rows[i + 10].learning_rate);
  }
}

TEST(Fp16Trainer, TheScaleMovesAsTheSettingsSay) {
  const auto scales = [](const LossScaling& scaling) {
    const Course course =
        run_all({.ids = numbers(10), .happenings = {.overflow = {7}}, .scaling = scaling})[0];
    std::vector<double> all;
    for (const StepRow& row : course.rows) all.push_back(row.loss_scaling->loss_scale);
    return all;
  };
  EXPECT_EQ(scales({.initial_scale_power = 5, .loss_scale_window = 3, .hysteresis = 1}),
            (std::vector<double>{32, 32, 32, 32, 64, 64, 64, 128, 64, 64}));
  EXPECT_EQ(scales({.loss_scale = 100}), std::vector<double>(10, 100));
}

std::string error_of(const Setting& run) {
  try {
    run_all(run);
  } catch (const UserError& e) {
    EXPECT_EQ(e.code, Exit::numeric);
    return e.what();
  }
  return "none";
}

TEST(Fp16Trainer, AtTheMinimumItSuggestsSettings) {
  // Scale 2^16 is used twice, 2^0 once: step 18.
  for (const int ranks : {1, 2})
    EXPECT_EQ(
        error_of({.ids = numbers(20 * ranks), .happenings = {.always_overflow = true}, .ranks = ranks}),
        "step 18: the gradient is not a finite number, although the loss scale is at its minimum; "
        "the first such: the gradient's norm"
        "\n  if float16's range is too small (up to 65504): training.fp16=false, or training.bf16=true "
        "instead"
        "\n  if training diverged: a lower training.learning_rate, warm-up, or training.max_grad_norm helps");
}

TEST(Fp16Trainer, ALossOfNanEndsTheRunAtOnce) {
  EXPECT_EQ(
      error_of({.ids = numbers(20), .happenings = {.no_loss = {3}}}),
      "step 4: the loss is not a finite number; the first such: the loss"
      "\n  if float16's range is too small (up to 65504): training.fp16=false, or training.bf16=true instead"
      "\n  if training diverged: a lower training.learning_rate, warm-up, or training.max_grad_norm helps");
}

}  // namespace
}  // namespace ft
