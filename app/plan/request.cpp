#include "app/plan/request.h"

#include "app/answers/answers.h"
#include "app/assembly/engine.h"
#include "app/assembly/sequence_parallel.h"
#include "app/ranks/ranks.h"
#include "app/rollouts/sampling.h"
#include "engine/train/optimizers/optimizer.h"
#include "engine/train/trainer.h"

namespace ft {

BatchShape scored_shape(BatchShape whole) {
  whole.targets = whole.sequences;
  return whole;
}

PlanRequest plan_request(const RunConfig& config, const BuiltModel& b, const BuiltObjective& o,
                         const BuiltData& d, std::int64_t workspace, const GridShape& grid) {
  require_shareable(config, b.model());
  PlanRequest r{
      .dtype = b.dtype,
      .grid = grid,
      .stage = b.stage.rank,
      .micro_batches = config.training.gradient_accumulation_steps,
      .zero = zero_options(config, grid.zero()),
      .reduce_bucket = static_cast<std::int64_t>(config.zero_optimization.reduce_bucket_size),
      .wire = wire_of(config.distributed, grid.zero()).dtype,
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
  r.inputs_on_host = config.on_gpu() && config.training.gradient_checkpointing == Checkpointing::offload;
  if (r.device.kind == Device::Kind::cpu)
    if (const auto host = make_host_ops(r.zero, r.device)) r.workspace += host->workspace();
  if (d.generated) {  // a pass without gradient says what the policy made of its answers
    r.train = r.eval = {d.generated->largest()};
    if (o.scorer) r.scored = {scored_shape(r.train[0])};
    r.generation = {generation_shape_of(config, d.generated->prompts().longest(), answers_of_rank(config))};
    return r;
  }
  if (d.train)
    r.train = largest_shapes(d.batches(), length_of(config.training, d.batches(), grid.data).epochs);
  if (d.stream) r.train = {d.stream->largest()};
  if (d.eval) r.eval = largest_shapes(*d.eval, 1);
  if (d.eval && config.evaluation.predict_with_generate)
    r.generation = {
        AnswerTest(d.eval->data(), b.made.info, config.training.per_device_eval_batch_size, config.generation)
            .shape()};
  return r;
}

}  // namespace ft
