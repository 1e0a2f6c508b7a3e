// A small run of several ranks, each a thread, that saves checkpoints and audits.
#pragma once
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/train/optimizers/list.h"
#include "engine/train/schedules/list.h"
#include "engine/zero/file_depot.h"
#include "tests/engine/train/plain_model.h"
#include "tests/support/ranks.h"

namespace ft::test {

inline constexpr std::int64_t kSizes[] = {5000, 301, 9000};

// A model whose gradient depends on its weights and on the micro-batch. `meddle` is called on every
// micro-batch before its gradients are computed.
class Sines final : public PlainModel {
 public:
  using Meddle = std::function<void(Sines&, ParameterStore&, std::int32_t id)>;
  Sines(DType dtype, Meddle meddle)
      : PlainModel({{"a", kSizes[0]}, {"b", kSizes[1]}, {"c", kSizes[2]}}, dtype),
        meddle_(std::move(meddle)) {
    parameters[2].shape = {kSizes[2] / 100, 100};  // a matrix, which some optimizers treat in their own way
  }

  void forward_backward(Ctx& c, ParameterStore& store, const Batch& b, const Loss& loss) override {
    const auto& [sum, scale, smoothing, dynamic, stretches, groups] = std::get<CrossEntropy>(loss);
    *sum.as<double>() += 1;
    const std::int32_t id = b.input_ids[0];
    if (meddle_) meddle_(*this, store, id);
    for (int u = 3; u-- > 0;) {
      const Use use(store, u, true);
      const Parameter& p = parameters[static_cast<std::size_t>(u)];
      for (std::int64_t i = 0; i < kSizes[u]; ++i) {
        const double w = p.dtype == DType::f32 ? p.value.as<float>()[i] : to_float(p.value.as<bf16>()[i]);
        p.grad.as<float>()[i] +=
            static_cast<float>(scale * (0.5 * w + 0.01 * std::sin(id + 0.1 * double(i))));
      }
      c.ops.enter(p.name);
      store.reduce(u, true);
    }
  }

 private:
  Meddle meddle_;
};

// Computes the gradients of the policy and, if there is one, of a critic.
class PolicyAndCritic final : public Objective {
 public:
  std::int64_t count(const BatchShape& s) const override { return s.targets; }
  void forward(const Pass&, const Batch&, Tensor) override {}
  void forward_backward(const Pass& pass, const Batch& b, Tensor loss, float scale) override {
    for (const Policy& p : {pass.policy, pass.others.critic})
      if (p) p.model->forward_backward(pass.context, *p.store, b, CrossEntropy{loss, scale, 0});
  }
};

struct GuardedRun {
  int ranks = 1, stage = 0;
  Home home = Home::device;  // of the optimizer's states
  DType dtype = DType::f32;
  Optim optim = &optimizers::kAdamW;
  bool critic = false;
  bool beside = false;
  std::int64_t steps = 6, save_steps = 2, audit_steps = 0;
  std::optional<std::int64_t> keep = {};
  std::string output;
  Sines::Meddle meddle = {};
  std::function<void(const std::string& folder)> added = [](const std::string&) {};
  std::function<bool()> stop_asked = [] { return false; };
  std::function<void(const SavedRow&)> saved = [](const SavedRow&) {};  // when a checkpoint is reported
};

// Rows and notes that rank 0's run reports.
struct Heard final : Report {
  std::vector<SavedRow> saves;
  std::vector<std::string> notes;
  std::function<void(const SavedRow&)> on_saved;
  void saved(const SavedRow& row) override {
    saves.push_back(row);
    on_saved(row);
  }
  void note(const std::string& text) override { notes.push_back(text); }
};

struct Ran {
  Heard heard;
  std::vector<float> weights;
  Ending ending = Ending::finished;
  std::int64_t snapshot = 0;  // bytes
};

inline TrainConfig settings_of(const GuardedRun& run) {
  TrainConfig config;
  config.training.num_train_epochs = 1;
  config.training.learning_rate = 0.05;
  config.training.optim = run.optim;
  config.training.lr_scheduler_type = &schedules::kConstant;
  config.training.audit_steps = run.audit_steps;
  config.training.output_dir = run.output;
  config.checkpointing.save_steps = static_cast<double>(run.save_steps);
  config.checkpointing.save_total_limit = run.keep;
  return config;
}

inline void load_ramp(ParameterStore& store) {
  store.load([](const Parameter&, Tensor y, std::int64_t first) {
    for (std::int64_t i = 0; i < y.numel(); ++i)
      y.as<float>()[i] = 0.001f * static_cast<float>((first + i) % 700) - 0.3f;
  });
}

inline void add_weights(ParameterStore& store, std::vector<float>& to) {
  store.stepping().each_slice(
      [&](const Slice& s) { to.insert(to.end(), s.master.as<float>(), s.master.as<float>() + s.count); });
}

// Runs one rank. Fills in what rank 0 reports also if it throws.
inline void run_rank(const GuardedRun& run, Ops& ops, Communicator& comm, Ran& out) {
  out.heard.on_saved = run.saved;
  const TrainConfig config = settings_of(run);
  Sines model(run.dtype, run.meddle);
  const Numbers data(numbers(static_cast<std::int32_t>(run.steps) * run.ranks));
  const Residence home{.home = run.home, .folder = std::filesystem::temp_directory_path(), .setting = "test"};
  ParameterStore store(ops, comm, {.stage = ZeroStage::of(run.stage), .window = 1, .states_home = home},
                       states_of(config.training), {nullptr, make_depot(home), nullptr});
  model.add_units(store);
  const TransientMemory transient{.values = 1 << 20, .grads = 1 << 20, .windows = 1 << 20};
  store.reserve(transient);
  load_ramp(store);
  Sines judge(run.dtype, {});
  std::optional<ParameterStore> judges;
  if (run.critic) {
    judges.emplace(ops, comm, ZeroOptions{.stage = ZeroStage::of(run.stage)}, states_of(config.training));
    judge.add_units(*judges);
    judges->reserve(transient);
    load_ramp(*judges);
  }
  const Policy critic = judges ? Policy{&judge, &*judges} : Policy{};
  std::optional<Snapshot> snapshot;
  if (run.beside) {
    const auto memory = make_depot({.home = Home::host});
    memory->reserve(snapshot_bytes(store, critic.store));
    memory->open();
    out.snapshot = snapshot.emplace(memory).size();
  }
  constexpr std::int64_t kScratch = 1 << 20;
  Arena saved(ops.allocate(4096), 4096), scratch(ops.allocate(kScratch), kScratch);
  Ctx context{ops, saved, scratch, {run.dtype}};
  Files files(model);
  Checkpoints checkpoints(model, store, comm, files, run.output, kMaxShardBytes, critic);
  PolicyAndCritic both;
  Trainer trainer({.context = context,
                   .model = model,
                   .store = store,
                   .comm = comm,
                   .data = data,
                   .eval = nullptr,
                   .checkpoints = checkpoints,
                   .report = out.heard,
                   .stop_asked = run.stop_asked,
                   .add_to_checkpoint = run.added,
                   .objective = run.critic ? &both : nullptr,
                   .others = {.critic = critic},
                   .snapshot = snapshot ? &*snapshot : nullptr},
                  config);
  TrainState state;
  state.batches_per_epoch = data.batches_per_epoch();
  state.accumulation = run.ranks;
  out.ending = trainer.run(state);
  for (ParameterStore* held : {&store, critic.store})
    if (held) add_weights(*held, out.weights);
}

struct RanAll {
  std::vector<Ran> ranks;
  std::vector<Said> errors;
};

inline RanAll run_all(const GuardedRun& run) {
  RanAll all;
  all.ranks.resize(static_cast<std::size_t>(run.ranks));
  for (const auto& thrown : on_threads(run.ranks, [&](Ops&ops, Mesh mesh) {
         const auto rank = static_cast<std::size_t>(mesh.rank);
         MeshCommunicator comm(ops, std::move(mesh), 60);
         run_rank(run, ops, comm, all.ranks[rank]);
       }))
    all.errors.push_back(said(thrown));
  return all;
}

}  // namespace ft::test
