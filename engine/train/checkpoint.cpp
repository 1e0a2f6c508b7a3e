#include "engine/train/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "engine/files/json.h"
#include "engine/files/room.h"
#include "engine/files/safetensors/safetensors_write.h"
#include "engine/ranks/together.h"
#include "engine/train/part_filler.h"

namespace ft {
namespace {

Shape shape_of(const Parameter& p, const StateSpec& state, int ranks) {
  return state.saved_shape(p.whole_shape(), ranks);
}

// Reads elements [first, first + y.numel()) of the mean over ranks of a state with `each` elements per rank,
// saved by another number of ranks. If every rank takes the mean, the mean over the new ranks is the saved
// one.
void read_mean(const SafetensorsFile& file, const StoredTensor& t, const Tensor& y, std::int64_t first,
               std::int64_t each) {
  const std::int64_t n = y.numel(), ranks = t.numel / each;
  std::vector<float> row(static_cast<std::size_t>(n));
  float* mean = y.as<float>();
  std::fill_n(mean, n, 0.0f);
  for (std::int64_t r = 0; r < ranks; ++r) {
    file.read(t, {reinterpret_cast<std::byte*>(row.data()), DType::f32, {n}}, r * each + first);
    for (std::int64_t i = 0; i < n; ++i)
      mean[i] += row[static_cast<std::size_t>(i)] / static_cast<float>(ranks);
  }
}

// Reads a parameter's elements from `first` on. from(values, at) reads values at a place in the complete
// tensor.
void read(const Parameter& p, std::int64_t first, const Tensor& to, auto from) {
  each_piece(p, first, to.numel(), [&](std::int64_t here, std::int64_t at, std::int64_t n) {
    from(to.elements(here - first, n), at);
  });
}

Json to_json(const std::optional<LossScaler::State>& s) {
  if (!s) return nullptr;
  return {{"scale", s->scale},
          {"hysteresis", s->hysteresis},
          {"step", s->step},
          {"last_overflow", s->last_overflow}};
}

LossScaler::State scaler_from_json(const JsonObject& j) {
  return {.scale = j.number("scale"),
          .hysteresis = j.integer("hysteresis", 1),
          .step = j.integer("step", 0),
          .last_overflow = j.integer("last_overflow", -1)};
}

Json to_json(const std::optional<EvaluatedRate::State>& s) {
  if (!s) return nullptr;
  return {{"rate", s->rate},
          {"best", s->best ? Json(*s->best) : Json(nullptr)},
          {"bad", s->bad},
          {"good", s->good},
          {"cooldown", s->cooldown},
          {"warmup", s->warmup},
          {"falls_left", s->falls_left},
          {"window", s->window},
          {"window_sum", s->window_sum}};
}

EvaluatedRate::State evaluated_rate_from_json(const JsonObject& j) {
  EvaluatedRate::State s;
  s.rate = j.number("rate");
  s.bad = j.integer("bad", 0);
  if (j.has("best")) s.best = j.number("best");
  s.cooldown = j.integer("cooldown", 0);
  if (!j.has("window")) return s;  // written before the schedule greedy existed
  s.good = j.integer("good", 0);
  s.warmup = j.integer("warmup", 0);
  s.falls_left = j.integer("falls_left", 0);
  s.window = j.numbers("window");
  s.window_sum = j.number("window_sum");
  return s;
}

Json to_json(const std::optional<StepScalars>& s) {
  if (!s) return nullptr;
  Json j = {{"rate", s->rate}, {"grad_scale", s->grad_scale}, {"step", s->step}};
  if (s->betas) j.update({{"beta1", s->betas->beta1}, {"beta2", s->betas->beta2}});
  return j;
}

StepScalars scalars_from_json(const JsonObject& j) {
  StepScalars s{.rate = j.number("rate"), .grad_scale = j.number("grad_scale"), .step = j.integer("step", 1)};
  if (j.has("beta1")) s.betas = Betas{j.number("beta1"), j.number("beta2")};
  return s;
}

Json to_json(const TrainState& s) {
  Json j = {{"step", s.step},
            {"tokens_seen", s.tokens_seen},
            {"loss_sum", s.loss_sum},
            {"loss_targets", s.loss_targets},
            {"column_sums", s.column_sums},
            {"objective", s.objective},
            {"run_loss_sum", s.run_loss_sum},
            {"run_loss_targets", s.run_loss_targets},
            {"flops", s.flops},
            {"best", s.best ? Json(*s.best) : Json(nullptr)},
            {"best_step", s.best_step},
            {"evaluations_since_best", s.evaluations_since_best},
            {"loss_scaler", to_json(s.loss_scaler)},
            {"skipped_steps", s.skipped_steps},
            {"plateau", to_json(s.evaluated_rate)},
            {"delayed", to_json(s.delayed)},
            {"batches_per_epoch", s.batches_per_epoch},
            {"accumulation", s.accumulation},
            {"sources", s.sources}};
  if (s.nonfinite_steps > 0) j["nonfinite_steps"] = s.nonfinite_steps;
  return j;
}

TrainState from_json(const JsonObject& j) {
  TrainState s;
  s.step = j.integer("step", 0);
  s.tokens_seen = j.integer("tokens_seen", 0);
  s.loss_sum = j.number("loss_sum");
  s.loss_targets = j.integer("loss_targets", 0);
  if (j.has("column_sums")) s.column_sums = j.numbers("column_sums");
  if (j.has("objective")) s.objective = j.numbers("objective");
  s.run_loss_sum = j.number("run_loss_sum");
  s.run_loss_targets = j.integer("run_loss_targets", 0);
  s.flops = j.number("flops");
  if (j.has("best")) s.best = j.number("best");
  s.best_step = j.integer("best_step", 0);
  s.evaluations_since_best = j.integer("evaluations_since_best", 0);
  if (j.has("loss_scaler")) s.loss_scaler = scaler_from_json(j.object("loss_scaler"));
  s.skipped_steps = j.integer_or("skipped_steps", 0, 0);
  s.nonfinite_steps = j.integer_or("nonfinite_steps", 0, 0);
  if (j.has("plateau")) s.evaluated_rate = evaluated_rate_from_json(j.object("plateau"));
  if (j.has("delayed")) s.delayed = scalars_from_json(j.object("delayed"));
  s.batches_per_epoch = j.integer("batches_per_epoch", 1);
  s.accumulation = j.integer("accumulation", 1);
  if (!j.has("sources")) return s;  // written before checkpoints held them
  const JsonObject sources = j.object("sources");
  for (const std::string& setting : sources.keys()) s.sources[setting] = sources.text(setting);
  return s;
}

// Returns the shards whose names begin with this stem; the manifest has verified the files.
std::vector<std::unique_ptr<SafetensorsFile>> files_of(const std::string& folder, const std::string& stem) {
  std::vector<std::unique_ptr<SafetensorsFile>> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().filename().string().starts_with(stem) && entry.path().extension() == ".safetensors")
      files.push_back(std::make_unique<SafetensorsFile>(entry.path().string(), Exit::checkpoint));
  return files;
}

std::vector<Parameter*> trained(Model& model) {
  std::vector<Parameter*> all;
  EachParameter each([&](Parameter& p) {
    if (p.trainable) all.push_back(&p);
  });
  model.visit(each);
  return all;
}

PlaceOf places_in(const ModelFiles& files) {
  return [&files](const Parameter& p) { return FilePlace{files.name_of(p), files.first_of(p)}; };
}

}  // namespace

void fill_in(const std::string& folder, ParameterStore& store, const ModelFiles& files, Content content) {
  PartFiller filler(folder);
  send_parts(store, places_in(files), content, filler);
  filler.sync();
}

Checkpoints::Checkpoints(Model& model, ParameterStore& store, Communicator& comm, ModelFiles& files,
                         std::string output_dir, std::int64_t max_shard_bytes, Policy critic)
    : model_(model),
      store_(store),
      comm_(comm),
      files_(files),
      output_dir_(std::move(output_dir)),
      max_shard_bytes_(max_shard_bytes),
      critic_(critic) {}

Checkpoints::Begun Checkpoints::begin(const TrainState& state,
                                      const std::function<void(const std::string&)>& extra) {
  Begun begun{.state = state};
  const bool root = comm_.rank() == 0;
  together(comm_, "begin a checkpoint", [&] {
    if (!root) return;
    require_room(output_dir_, bytes(), checkpoint_path(output_dir_, state.step));
    begun.writer = std::make_unique<CheckpointWriter>(output_dir_, state.step);
    const std::string& folder = begun.writer->path();
    files_.create(folder, true);
    create(folder, optimizer(state.delayed.has_value()));
    if (critic_) create(folder, critic());
    extra(folder);
  });
  begun.folder = shared(comm_, root ? begun.writer->path() : "");
  return begun;
}

void Checkpoints::send_part(const Begun& begun, PartSink& to) {
  const Content content = begun.state.delayed ? Content::with_gradients : Content::weights_and_states;
  send_parts(store_, places_in(files_), content, to);
  if (critic_) send_critic(*critic_.store, to);
}

std::string Checkpoints::complete(Begun& begun) {
  std::string path;
  if (begun.writer) path = begun.writer->commit(to_json(begun.state));
  begun.writer.reset();
  return path;
}

std::string Checkpoints::save(const TrainState& state, const std::function<void(const std::string&)>& extra) {
  Begun begun = begin(state, extra);
  together(comm_, kWritePart, [&] {
    PartFiller filler(begun.folder);
    send_part(begun, filler);
    filler.sync();
  });
  std::string path;
  together(comm_, kComplete, [&] { path = complete(begun); });
  return path;
}

Checkpoints::Stored Checkpoints::optimizer(bool gradients) const {
  return {model_, store_, "optimizer", "", gradients ? std::vector{kGradient} : std::vector<StateSpec>{}};
}

Checkpoints::Stored Checkpoints::critic() const {
  return {*critic_.model, *critic_.store, "critic", kCritic, {kValue}};
}

std::vector<TensorSpec> Checkpoints::specs_of(const Stored& of) {
  std::vector<TensorSpec> specs;
  const int ranks = of.store.communicator().size();
  const auto add = [&](const Parameter& p, std::span<const StateSpec> states) {
    for (const StateSpec& state : states)
      specs.push_back({saved_name(p, state, of.prefix), state.dtype, shape_of(p, state, ranks)});
  };
  for (const Parameter* p : trained(of.model)) {
    add(*p, of.store.layout().states(*p));
    add(*p, of.more);
  }
  return specs;
}

std::int64_t Checkpoints::bytes() const {
  std::int64_t all = files_.bytes(true);
  const auto add = [&](const Stored& of) {
    for (const TensorSpec& s : specs_of(of)) all += s.shape.numel() * size_of(s.dtype);
  };
  add(optimizer(store_.parts().keeps_gradients()));
  if (critic_) add(critic());
  return all;
}

void Checkpoints::create(const std::string& folder, const Stored& of) const {
  const std::vector<TensorSpec> specs = specs_of(of);
  if (!specs.empty()) write_shards(folder, of.stem, specs, {}, max_shard_bytes_);
}

void Checkpoints::restore(const std::string& folder, const Stored& of) {
  const auto shards = files_of(folder, of.stem);
  const int ranks = of.store.communicator().size();
  const auto fits = [&](std::int64_t numel, const Parameter& p, const StateSpec& state) {
    return state.kept == Kept::own ? numel > 0 && numel % p.shape.numel() == 0
                                   : numel == shape_of(p, state, ranks).numel();
  };
  const auto find = [&](const Parameter& p, const StateSpec& state) {
    const std::string name = saved_name(p, state, of.prefix);
    for (const auto& shard : shards)
      if (const StoredTensor* t = shard->find(name); t && fits(t->numel, p, state))
        return std::pair{shard.get(), t};
    throw UserError(Exit::checkpoint, str(folder, ": ", name,
                                          " is missing or has another shape; the checkpoint belongs to "
                                          "another model, adapter or optimizer"));
  };
  for (const Parameter* p : trained(of.model)) {
    for (const StateSpec& state : of.store.layout().states(*p)) find(*p, state);
    for (const StateSpec& state : of.more) find(*p, state);
  }
  const auto read_state = [&](const Parameter& p, const StateSpec& state, const Tensor& to,
                              std::int64_t first) {
    const auto [shard, tensor] = find(p, state);
    if (state.kept == Kept::own && tensor->numel != shape_of(p, state, ranks).numel())
      return read_mean(*shard, *tensor, to, first % p.shape.numel(), p.shape.numel());
    read(p, first, to, [&](const Tensor& values, std::int64_t at) { shard->read(*tensor, values, at); });
  };
  of.store.parts().restore_states(read_state);
  for (const StateSpec& state : of.more) {
    const auto read_it = [&](const Parameter& p, const Tensor& to, std::int64_t first) {
      read_state(p, state, to, first);
    };
    if (state == kGradient) {
      of.store.parts().restore_gradients(read_it);
    } else {
      of.store.parts().restore_masters(read_it);
      of.store.publish();
    }
  }
}

void Checkpoints::load_weights(const std::string& folder) {
  store_.parts().restore_masters(of_parts(files_.read(folder)));
  store_.publish();
  if (critic_) restore(folder, critic());
}

TrainState Checkpoints::load(const Checkpoint& checkpoint, bool states) {
  TrainState state = from_json(checkpoint.about);
  if (state.delayed && !store_.parts().keeps_gradients())
    throw UserError(Exit::config, str(checkpoint.path,
                                      ": its last gradients are still to be applied; set "
                                      "zero_optimization.offload_optimizer.delayed_update=true to continue "
                                      "it"));
  load_weights(checkpoint.path);
  if (states)
    restore(checkpoint.path, optimizer(state.delayed.has_value()));
  else
    state.delayed.reset();
  return state;
}

void Checkpoints::prune(std::int64_t most, std::int64_t keep) {
  prune_checkpoints(output_dir_, most, {keep});
}

}  // namespace ft
