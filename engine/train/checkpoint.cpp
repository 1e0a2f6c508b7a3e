#include "engine/train/checkpoint.h"

#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/io/json.h"
#include "engine/io/safetensors_write.h"

namespace ft {
namespace {

// torch's names for AdamW's states.
constexpr std::array<const char*, 2> kStates = {".exp_avg", ".exp_avg_sq"};
constexpr const char* kOptimizerFile = "optimizer.safetensors";

Json to_json(const TrainState& s) {
  return {{"step", s.step},
          {"tokens_seen", s.tokens_seen},
          {"loss_sum", s.loss_sum},
          {"loss_targets", s.loss_targets},
          {"run_loss_sum", s.run_loss_sum},
          {"run_loss_targets", s.run_loss_targets},
          {"flops", s.flops},
          {"best", s.best ? Json(*s.best) : Json(nullptr)},
          {"best_step", s.best_step},
          {"evaluations_since_best", s.evaluations_since_best},
          {"batches_per_epoch", s.batches_per_epoch},
          {"accumulation", s.accumulation}};
}

TrainState from_json(const JsonObject& j) {
  TrainState s;
  s.step = j.integer("step", 0);
  s.tokens_seen = j.integer("tokens_seen", 0);
  s.loss_sum = j.number("loss_sum");
  s.loss_targets = j.integer("loss_targets", 0);
  s.run_loss_sum = j.number("run_loss_sum");
  s.run_loss_targets = j.integer("run_loss_targets", 0);
  s.flops = j.number("flops");
  if (j.has("best")) s.best = j.number("best");
  s.best_step = j.integer("best_step", 0);
  s.evaluations_since_best = j.integer("evaluations_since_best", 0);
  s.batches_per_epoch = j.integer("batches_per_epoch", 1);
  s.accumulation = j.integer("accumulation", 1);
  return s;
}

}  // namespace

Checkpoints::Checkpoints(Model& model, ParameterStore& store, ModelFiles& files, std::string output_dir,
                         int states)
    : model_(model), store_(store), files_(files), output_dir_(std::move(output_dir)), states_(states) {}

std::vector<Parameter*> Checkpoints::trained() {
  std::vector<Parameter*> all;
  EachParameter each([&](Parameter& p) {
    if (p.trainable) all.push_back(&p);
  });
  model_.visit(each);
  return all;
}

std::string Checkpoints::save(const TrainState& state, const std::function<void(const std::string&)>& extra) {
  std::string path;
  store_.at_root([&] {
    CheckpointWriter writer(output_dir_, state.step);
    const std::string& folder = writer.path();
    files_.write(
        folder, [&](const Parameter& p, std::span<float> y) { store_.fetch(p, ParameterStore::kMaster, y); },
        true);
    write_optimizer(folder);
    extra(folder);
    path = writer.commit(to_json(state));
  });
  return path;
}

void Checkpoints::write_optimizer(const std::string& folder) {
  if (states_ == 0) return;
  std::map<std::string, std::pair<const Parameter*, int>> by_name;
  std::vector<TensorSpec> specs;
  for (const Parameter* p : trained())
    for (int k = 0; k < states_; ++k) {
      specs.push_back({p->name + kStates[static_cast<std::size_t>(k)], DType::f32, p->shape});
      by_name[specs.back().name] = {p, k};
    }
  std::vector<float> values;
  write_safetensors(join_path(folder, kOptimizerFile), specs, [&](const TensorSpec& spec) {
    const auto& [parameter, state] = by_name.at(spec.name);
    values.resize(static_cast<std::size_t>(spec.shape.numel()));
    store_.fetch(*parameter, state, values);
    return Tensor(reinterpret_cast<std::byte*>(values.data()), DType::f32, spec.shape);
  });
}

void Checkpoints::read_optimizer(const std::string& folder) {
  if (states_ == 0) return;
  const SafetensorsFile file(join_path(folder, kOptimizerFile), Exit::checkpoint);
  std::vector<float> values;
  for (const Parameter* p : trained())
    for (int k = 0; k < states_; ++k) {
      const std::string name = p->name + kStates[static_cast<std::size_t>(k)];
      const StoredTensor* t = file.find(name);
      if (!t || t->numel != p->shape.numel())
        throw UserError(Exit::checkpoint, str(file.path(), ": ", name,
                                              " is not there in the model's shape; the checkpoint is of "
                                              "another model, adapter or optimizer"));
      values.resize(static_cast<std::size_t>(t->numel));
      file.read(*t, Tensor(reinterpret_cast<std::byte*>(values.data()), DType::f32, p->shape));
      store_.store(*p, k, values);
    }
}

void Checkpoints::load_weights(const std::string& folder) {
  const ReadParameter read = files_.read(folder);
  std::vector<float> values;
  for (const Parameter* p : trained()) {
    values.resize(static_cast<std::size_t>(p->shape.numel()));
    read(*p, Tensor(reinterpret_cast<std::byte*>(values.data()), DType::f32, p->shape), 0);
    store_.store(*p, ParameterStore::kMaster, values);
  }
  store_.publish();
}

TrainState Checkpoints::load(const Checkpoint& checkpoint) {
  load_weights(checkpoint.path);
  read_optimizer(checkpoint.path);
  return from_json(checkpoint.about);
}

void Checkpoints::prune(std::int64_t most, std::int64_t keep) {
  prune_checkpoints(output_dir_, most, {keep});
}

}  // namespace ft
