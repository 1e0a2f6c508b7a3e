#include "app/plan/request.h"

#include "app/assembly/engine.h"
#include "app/assembly/sequence_parallel.h"
#include "app/ranks/ranks.h"
#include "app/rollouts/answer_test.h"
#include "app/rollouts/sampling.h"
#include "engine/ops/ops.h"
#include "engine/train/optimizers/optimizer.h"
#include "engine/train/trainer.h"

namespace ft {

namespace {

// Returns the shape of answers for a reward model, which has one target in each sequence.
BatchShape scored_shape(BatchShape whole) {
  whole.targets = whole.sequences;
  return whole;
}

bool has_tails(const Dataset& data) {
  for (std::int64_t i = 0; i < data.size(); ++i)
    if (!data.tail(i).empty()) return true;
  return false;
}

// Returns an upper bound for KTO's batches of prompts with other rows' answers. Needed if answers were cut,
// because another prompt may leave room for the complete answer.
BatchShape largest_mixed(const RunConfig& config) {
  const TrainingConfig& t = config.training;
  const std::int64_t rows = std::max(t.per_device_train_batch_size, t.per_device_eval_batch_size),
                     length = config.data.max_seq_length;
  return {.tokens = rows * length,
          .targets = rows * length,
          .sequences = rows,
          .longest = length,
          .compared = rows};
}

}  // namespace

void add_rewarding(PlanRequest& r) {
  r.valued = r.eval;
  if (r.scorer)
    for (const BatchShape& s : r.eval) r.scored.push_back(scored_shape(s));
}

PlanRequest plan_request(const RunConfig& config, const BuiltModel& b, const BuiltObjective& o,
                         const BuiltData& d, std::int64_t workspace, const GridShape& grid) {
  require_shareable(config, b.model());
  PlanRequest r{
      .dtype = b.dtype,
      .grid = grid,
      .stage = b.stage,
      .micro_batches = config.training.gradient_accumulation_steps,
      .zero = zero_options(config, grid.zero()),
      .reduce_bucket = static_cast<std::int64_t>(config.zero_optimization.reduce_bucket_size),
      .wire = wire_of(config.distributed, grid.zero()).dtype,
      .encryption = config.distributed.encryption,
      .nccl = config.distributed.backend != Backend::tcp,
      .states = states_of(config.training),
      .optimizer = make_optimizer(config.training),
      .recompute = config.training.gradient_checkpointing == Checkpointing::off ? 0 : b.model().blocks(),
      .adapter = b.lora,
      .device = device_of(config),
      .workspace = workspace};
  r.objective = o.objective.get();
  r.whole = b.whole ? &b.whole->model() : nullptr;
  r.reference = o.reference ? &o.reference->model() : nullptr;
  r.scorer = o.scorer ? &o.scorer->model() : nullptr;
  r.critic = o.critic ? &o.critic->model() : nullptr;
  r.inputs_on_host = config.on_gpu() && config.training.gradient_checkpointing == Checkpointing::offload;
  if (r.device.kind == Device::Kind::cpu)
    if (const auto host = make_host_ops(r.zero, r.device)) r.workspace += host->workspace();
  if (d.generated || d.generated_eval) {
    if (d.generated) r.train = {d.generated->largest()};
    r.eval = r.train;  // the policy scores its answers without gradients
    if (d.generated_eval) r.eval.push_back(d.generated_eval->largest());
    add_rewarding(r);
    if (!config.objective.rollout_server)
      r.generation = {generation_shape_of(config, d.generated.get(), d.generated_eval.get())};
    return r;
  }
  if (d.train)
    r.train = largest_shapes(d.own ? *d.train : d.batches(),
                             length_of(config.training, d.batches(), grid.data).epochs);
  if (d.own) {
    const ObjectiveNeeds needs = config.objective.needs();
    if (needs.own == 1 || needs.taught) r.train.clear();  // no answer is the data's
    r.train.insert(r.train.begin(), d.own->largest());
    if (needs.own > 0) r.generation = {generation_shape_of(config, *d.own)};
    if (needs.taught) r.taught = {generation_shape_of(config, *d.own)};
  }
  if (d.stream) r.train = {d.stream->largest()};
  if (d.eval) r.eval = largest_shapes(*d.eval, 1);
  if (has_tails(d.loaded.train) || has_tails(d.loaded.eval)) r.eval.push_back(largest_mixed(config));
  if (d.eval && config.evaluation.predict_with_generate)
    r.generation.push_back(
        AnswerTest(d.eval->data(), b.made.info, config.training.per_device_eval_batch_size, config.generation)
            .shape());
  return r;
}

}  // namespace ft
