#include "app/train/eva.h"

#include <algorithm>

#include "app/plan/request.h"
#include "engine/files/file.h"
#include "engine/ops/ops.h"
#include "lora/peft_config.h"
#include "lora/starts/eva.h"
#include "lora/watch.h"

namespace ft {
namespace {

constexpr std::int64_t kMostBatches = 1000;

// Freezes all parameters of a model as long as this object lives.
class Frozen {
 public:
  explicit Frozen(Model& model) {
    EachParameter freeze([&](Parameter& p) {
      if (p.trainable) trained_.push_back(&p);
      p.trainable = false;
    });
    model.visit(freeze);
  }
  ~Frozen() {
    for (Parameter* p : trained_) p->trainable = true;
  }
  Frozen(const Frozen&) = delete;
  Frozen& operator=(const Frozen&) = delete;

 private:
  std::vector<Parameter*> trained_;
};

// Returns these rows of x, one after another.
std::vector<float> rows_of(const Tensor& x, const std::vector<std::int64_t>& rows) {
  std::vector<float> out;
  out.reserve(rows.size() * static_cast<std::size_t>(x.cols()));
  for (const std::int64_t r : rows)
    out.insert(out.end(), x.as<float>() + r * x.cols(), x.as<float>() + (r + 1) * x.cols());
  return out;
}

std::vector<std::int64_t> rows_that_count(const std::vector<std::int32_t>& labels, const lora::EvaConfig& c) {
  std::vector<std::int64_t> rows;
  for (std::int64_t r = 0; r < std::ssize(labels); ++r)
    if (!c.use_label_mask || labels[static_cast<std::size_t>(r)] != c.label_mask_value) rows.push_back(r);
  return rows;
}

std::vector<lora::Eva::Layer> layers_of(const BuiltModel& b) {
  std::vector<lora::Eva::Layer> layers;
  for (std::size_t i = 0; i < b.attached.linears.size(); ++i) {
    const lora::LoraAdapter& a = lora::as_lora(*b.attached.adapters[i]);
    layers.push_back({b.attached.linears[i], a.a.whole_shape()[1], a.rank()});
  }
  return layers;
}

struct Begun {
  std::vector<std::int64_t> ranks;  // (linears)
  std::vector<lora::Factors> a;     // A of the linears with a rank above 0
  std::int64_t batches = 0;
};

// Passes over the batches, repeatedly, until the principal components of all linears are stable.
Begun look(const Pass& pass, Objective& objective, const Batcher& data, lora::Watch& watch, lora::Eva& eva,
           const lora::EvaConfig& config, lora::Watch::See& see, Working& working, std::size_t linears) {
  const std::int64_t n = data.batches_per_epoch();
  constexpr double zero = 0;
  std::vector<std::int64_t> rows;
  const auto forward = [&](std::int64_t i) {
    rows = rows_that_count(data.labels(0, i % n), config);
    Scope scratch(pass.context.scratch);
    const Tensor loss = pass.context.scratch.take({1}, DType::f64);
    pass.context.ops.upload(loss, &zero);
    objective.forward(pass, data.batch(0, i % n), loss);
    objective.take_columns();
  };
  const auto view = [](const std::vector<float>& x, const Tensor& all) {
    return lora::MatrixView{x.data(), std::ssize(x) / all.cols(), all.cols()};
  };
  watch.wants = [](std::size_t) { return true; };
  see = [&](std::size_t i, const Tensor& x) {
    const std::vector<float> own = rows_of(x, rows);
    eva.compare(i, view(own, x));
  };
  forward(0);
  eva.begin();
  watch.wants = [&](std::size_t i) { return eva.wants(i); };
  see = [&](std::size_t i, const Tensor& x) {
    const std::vector<float> own = rows_of(x, rows);
    eva.add(i, view(own, x));
  };
  Begun begun;
  for (; !eva.done(); ++begun.batches) {
    if (begun.batches == n && !eva.decomposes())
      throw UserError(Exit::config,
                      str("lora.init_lora_weights: eva needs a micro-batch with ", eva.most_components(),
                          " trained tokens; raise training.per_device_train_batch_size, or set "
                          "lora.eva_config.use_label_mask=false"));
    if (begun.batches == kMostBatches)
      throw UserError(Exit::config, str("lora.eva_config.tau: after ", kMostBatches,
                                        " batches components still ", "turn more than that; lower it"));
    forward(begun.batches);
    eva.end_batch();
    working(eva.settled(), static_cast<std::int64_t>(linears));
  }
  begun.ranks = eva.ranks();
  for (std::size_t i = 0; i < linears; ++i)
    if (begun.ranks[i] > 0) begun.a.push_back({eva.start_of(i), {}});
  return begun;
}

Begun look_at_data(Run& run, Screen& screen) {
  BuiltModel& b = run.built;
  const Batcher batches = unpadded(run.data);
  lora::Watch::See see;
  lora::Watch watch(b.model(), b.attached, [&](std::size_t i, const Tensor& x) { see(i, x); });
  const std::vector<lora::Eva::Layer> layers = layers_of(b);
  const Frozen frozen(b.model());
  PlanRequest request =
      plan_request(run.config, b, run.objective, run.data, run.ops().workspace(), run.ranks.grid);
  request.zero = frozen_options(request);
  request.states = no_states;
  request.optimizer = nullptr;
  request.train.clear();
  request.eval = largest_shapes(batches, 1);
  request.generation.clear();
  request.inputs_on_host = false;
  request.costs = Costs::none;
  Begun begun;
  run.before(request, [&](Engine& engine) {
    engine.context.train = false;
    lora::Eva eva(layers, b.lora_config.eva_config, engine.grid.zero());
    Working working(screen, "eva: reading the inputs of linears", "linears");
    begun = look(engine.pass(b.model()), *run.objective.objective, batches, watch, eva,
                 b.lora_config.eva_config, see, working, layers.size());
  });
  return begun;
}

// Returns the configuration with the ranks and targets that a checkpoint of the run got from the data. Throws
// UserError (checkpoint) if the checkpoint has another r or lora_alpha.
lora::LoraConfig as_saved(const lora::LoraConfig& config, const std::string& checkpoint) {
  const std::string file = join_path(checkpoint, "adapter_config.json");
  const lora::LoraConfig saved = lora::read_adapter_config(file, Exit::checkpoint).lora;
  if (saved.r != config.r || saved.lora_alpha != config.lora_alpha)
    throw UserError(Exit::checkpoint, str(file, ": r is ", saved.r, " and lora_alpha ", saved.lora_alpha,
                                          "; this run's are ", config.r, " and ", config.lora_alpha));
  lora::LoraConfig c = config;
  c.rank_pattern = saved.rank_pattern;
  c.alpha_pattern = saved.alpha_pattern;
  c.target_modules = saved.target_modules;
  return c;
}

std::string text_of(const Begun& begun) {
  const auto [least, most] = std::ranges::minmax(begun.ranks);
  return str("eva: ranks from ", least, " to ", most, ", after ", begun.batches, " batches");
}

}  // namespace

Batcher unpadded(const BuiltData& data) {
  BatcherOptions options = data.train->options();
  options.pad_to = 0;
  return {data.train->data(), options};
}

void begin_by_eva(Run& run, const RunFolder& folder, Screen& screen) {
  BuiltModel& b = run.built;
  if (const Checkpoint* from = folder.checkpoint())
    return begin_as(b, run.config, as_saved(b.lora_config, from->path), {});
  Begun begun = look_at_data(run, screen);
  if (run.progress() != ProgressStyle::none) screen.line(text_of(begun));
  const lora::Origin origin = origin_of(b.made.info, nullptr);
  begin_as(b, run.config, lora::redistributed(b.lora_config, b.attached, begun.ranks, origin),
           std::move(begun.a));
}

}  // namespace ft
