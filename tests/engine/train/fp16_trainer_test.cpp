// The Trainer in fp16 with a model that is one vector, whose gradients overflow where the test says: on all
// ranks it is as if such a step had never been, except for the loss scale.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <set>

#include "engine/io/safetensors_write.h"
#include "engine/train/trainer.h"
#include "tests/engine/io/temp_folder.h"
#include "tests/support/ranks.h"

namespace ft {
namespace {

using test::TempFolder;
using Ids = std::set<std::int32_t>;

constexpr std::int64_t kSize = 600;

// What happens in the micro-batches of these numbers.
struct Happenings {
  Ids overflow{}, no_loss{};
  bool always_overflow = false;
};

class Vector final : public Model {
 public:
  explicit Vector(Happenings h) : happenings_(std::move(h)) {
    p_.name = "w";
    p_.shape = {kSize};
    p_.dtype = DType::f16;
    p_.trainable = true;
  }
  void visit(Visitor& v) override { v.parameter(p_); }
  void add_units(ParameterStore& store) override { unit_ = store.add_unit("w", {&p_}); }
  std::int64_t blocks() const override { return 1; }
  void set_recompute(std::int64_t) override {}
  void forward(Ctx&, ParameterStore&, const Batch&, Tensor) override {}
  void forward_backward(Ctx& c, ParameterStore& store, const Batch& b, Tensor loss, float scale,
                        float) override {
    const Use use(store, unit_, true);
    const std::int32_t id = b.input_ids[0];
    *loss.as<double>() += happenings_.no_loss.contains(id) ? NAN : 1.0 / (1 + id % 5);
    const bool overflow = happenings_.always_overflow || happenings_.overflow.contains(id);
    for (std::int64_t i = 0; i < kSize; ++i) {
      const float w = to_float(p_.value.as<f16>()[i]);
      f16 d;  // of an activation
      from_float(d, scale * (overflow && i == 7 ? 1e6f : 0.1f * w + 0.01f * static_cast<float>(id % 7)));
      p_.grad.as<float>()[i] += to_float(d);
    }
    c.ops.enter("w");
    store.reduce(unit_, true);
  }
  void logits(Ctx&, ParameterStore&, const Batch&, Tensor) override {}
  std::int64_t vocab_size() const override { return 1; }
  KvCache make_kv_cache(Arena&, KvCacheShape, DType) const override { return {}; }
  void extend(Ctx&, ParameterStore&, const KvCache&, const Continuation&, Tensor) override {}

 private:
  Parameter p_;
  int unit_ = 0;
  Happenings happenings_;
};

// One token a micro-batch: its number.
class Numbers final : public BatchSource {
 public:
  explicit Numbers(std::vector<std::int32_t> ids) : ids_(std::move(ids)) {}
  std::int64_t batches_per_epoch() const override { return static_cast<std::int64_t>(ids_.size()); }
  Batch batch(std::int64_t, std::int64_t i) const override {
    Batch b;
    b.input_ids = {ids_[static_cast<std::size_t>(i)]};
    b.positions = b.target_rows = b.targets = {0};
    b.starts = {0, 1};
    return b;
  }
  BatchShape shape(std::int64_t, std::int64_t) const override {
    return {.tokens = 1, .targets = 1, .sequences = 1, .longest = 1};
  }

 private:
  std::vector<std::int32_t> ids_;
};

class Files final : public ModelFiles {
 public:
  void create(const std::string& folder, bool) override {
    const std::vector<TensorSpec> specs{{"w", DType::f32, {kSize}}};
    write_safetensors(folder + "/model.safetensors", specs, {});
  }
  std::string name_of(const Parameter& p) const override { return p.name; }
  ReadParameter read(const std::string& folder) override {
    auto file = std::make_shared<SafetensorsFile>(folder + "/model.safetensors");
    return [file](const Parameter& p, Tensor y, std::int64_t first) {
      file->read(*file->find(p.name), y, first);
    };
  }
};

struct Told : Report {
  std::vector<StepRow> rows;
  std::vector<std::string> notes;
  void progress(const StepRow& row) override { rows.push_back(row); }
  void note(const std::string& text) override { notes.push_back(text); }
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
  std::int64_t save_steps = 1000;
  std::string output = "/nowhere", resume = {};
  std::int64_t max_shard_bytes = kMaxShardBytes;
};

// What rank `rank` sees.
Course run_rank(const Setting& run, Ops& ops, Communicator& comm) {
  TrainConfig config;
  config.training.fp16 = true;
  config.training.num_train_epochs = 1;
  config.training.learning_rate = 0.05;
  config.training.lr_scheduler_type = LrScheduler::constant_with_warmup;
  config.training.warmup_steps = 9;
  config.training.max_grad_norm = 0.5;
  config.training.output_dir = run.output;
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
  Ctx context{ops, saved, scratch, DType::f16};
  Files files;
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
  store.each_slice([&](const Slice& s) {
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

std::vector<std::int32_t> numbers(std::int32_t n) {
  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < n; ++i) ids.push_back(i);
  return ids;
}

TEST(Fp16Trainer, ASkippedStepHasNeverBeenOnAnyRank) {
  for (const int ranks : {1, 2})
    for (const int stage : {0, 1, 2, 3}) {
      // Steps 3, 5 and 6 (from 0), by the last rank alone.
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
        // The schedule has waited, and the norm is that of the gradient without its scale.
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

std::string error_of(const Setting& run) {
  try {
    run_all(run);
  } catch (const UserError& e) {
    EXPECT_EQ(e.code, Exit::numeric);
    return e.what();
  }
  return "none";
}

TEST(Fp16Trainer, AtTheMinimumItSaysWhatToDo) {
  // 2^16 is used twice, 2^0 once: step 18.
  for (const int ranks : {1, 2})
    EXPECT_EQ(
        error_of({.ids = numbers(20 * ranks), .happenings = {.always_overflow = true}, .ranks = ranks}),
        "step 18: the gradient is not a finite number, although the loss scale is at its minimum; "
        "the first such: the gradient's norm"
        "\n  if float16's range is too small (up to 65504): training.fp16=false, or training.bf16=true "
        "instead"
        "\n  if training diverged: a lower training.learning_rate, warm-up, or training.max_grad_norm helps");
}

TEST(Fp16Trainer, ALossThatIsNoNumberEndsTheRunAtOnce) {
  EXPECT_EQ(
      error_of({.ids = numbers(20), .happenings = {.no_loss = {3}}}),
      "step 4: the loss is not a finite number; the first such: the loss"
      "\n  if float16's range is too small (up to 65504): training.fp16=false, or training.bf16=true instead"
      "\n  if training diverged: a lower training.learning_rate, warm-up, or training.max_grad_norm helps");
}

}  // namespace
}  // namespace ft
