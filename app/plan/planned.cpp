#include "app/plan/planned.h"

#include <algorithm>
#include <span>

#include "app/assembly/engine.h"
#include "app/plan/last_below_zero.h"
#include "app/plan/request.h"
#include "app/rollouts/sampling.h"
#include "engine/cuda/cuda_ops.h"
#include "engine/ops/ops.h"
#include "engine/ranks/together.h"

namespace ft {
namespace {

// Returns the largest possible micro-batch: every sequence has the maximum length, at most the model's
// positions. `other` replaces the configured length of a sequence, or of a source.
BatchShape full_shape(std::int64_t rows, const RunConfig& config, const ModelInfo& info,
                      std::optional<std::int64_t> other) {
  const DataConfig& data = config.data;
  const std::int64_t compared = config.objective.compares() ? rows : 0;
  const std::int64_t sequences = rows * config.objective.sequences_of_row();
  if (info.decoder) {
    BatchShape s = full_pairs(sequences, other.value_or(data.max_source_length), data.max_target_length);
    s.compared = compared;
    return s;
  }
  std::int64_t length = other.value_or(data.max_seq_length);
  if (info.positions > 0) length = std::min(length, info.positions);
  BatchShape s{.tokens = sequences * length,
               .targets = sequences * config.objective.targets_of(length),
               .sequences = sequences,
               .longest = length,
               .compared = compared};
  if (shares_prompts(config, false) && sequences > rows) share_nothing(s);
  return s;
}

// Sets the shapes of answers that models give to examples. `known`: the request has their shapes already.
void plan_answers(const RunConfig& config, bool known, PlanRequest& request) {
  const ObjectiveNeeds needs = config.objective.needs();
  const std::int64_t longest = request.train[0].longest,
                     answer = std::min(config.objective.answer_length(), longest - 1);
  const GenerationShape answers =
      generation_shape_of(config, longest - answer, answer, answers_of_rank(config));
  if (needs.own > 0 && known)
    request.generation.front() = answers;
  else if (needs.own > 0)
    request.generation.insert(request.generation.begin(), answers);
  if (needs.taught) request.taught = {answers};
}

// Plans a model that is already built; can be called again for the same model.
Planned plan_built(const RunConfig& config, const BuiltModel& built, const BuiltData* data, Room room,
                   std::optional<std::int64_t> length, Costs costs = Costs::all) {
  const BuiltData none;
  const BuiltObjective objective = build_objective(config, built, Weights::ignore);
  PlanRequest request = plan_request(config, built, objective, data ? *data : none, room.workspace,
                                     grid_of(config.distributed));
  request.driver = room.driver;
  if (length || !data) {
    const auto full = [&](std::int64_t sequences) {
      return full_shape(sequences, config, built.made.info, length);
    };
    request.train = {full(config.training.per_device_train_batch_size)};
    if (config.objective.generates() && !config.objective.rollout_server)
      request.generation = {generation_shape_of(
          config, std::max<std::int64_t>(1, request.train[0].longest - config.objective.answer_length()),
          config.objective.answer_length(), answers_of_rank(config))};
    if (config.objective.rewrites()) plan_answers(config, data && data->own, request);
    if (config.evaluation.eval_strategy != EvalStrategy::no)
      request.eval = {full(config.training.per_device_eval_batch_size)};
    if (config.objective.generates()) {
      request.eval.push_back(request.train[0]);
      request.valued = request.scored = {};
      add_rewarding(request);
    }
  }
  request.saves_beside = config.checkpointing.async_save.value_or(false);  // leaves less for activations
  request.recompute =
      fewest_recomputed(built.model(), request, recompute_range(config, built.model(), request), room.there);
  request.saves_beside = saves_beside(config, built.model(), request, room.there, room.host);
  request.costs = costs;
  const BatchShape largest = request.train.empty() ? BatchShape{} : request.train[0];
  const Plan plan = plan_run(built.model(), request);
  return {plan, largest, {plan}};
}

// Returns true if some stages have memory for a checkpoint's snapshot and others have not.
bool differ_in_saving(const std::vector<Plan>& stages) {
  return std::ranges::any_of(
      stages, [&](const Plan& plan) { return plan.saves_beside != stages.front().saves_beside; });
}

// Builds the model of each pipeline stage's first rank. No other rank of a stage has more weights.
std::vector<BuiltModel> build_stages(const RunConfig& config) {
  const GridShape grid = grid_of(config.distributed);
  std::vector<BuiltModel> all;
  for (int s = 0; s < grid.pipeline; ++s)
    all.push_back(build_model(config, Weights::ignore,
                              {{0, grid.tensor}, {0, grid.expert}, s, grid.pipeline, grid.chunks}));
  return all;
}

Planned plan_stages(const RunConfig& config, const std::vector<BuiltModel>& stages, const BuiltData* data,
                    Room room, std::optional<std::int64_t> length, Costs costs = Costs::all) {
  Planned all;
  for (const BuiltModel& stage : stages) {
    const Planned one = plan_built(config, stage, data, room, length, costs);
    all.largest = one.largest;
    all.stages.push_back(one.plan);
  }
  if (differ_in_saving(all.stages)) {  // no rank saves beside training if one cannot
    RunConfig waits = config;
    waits.checkpointing.async_save = false;
    return plan_stages(waits, stages, data, room, length, costs);
  }
  all.plan = *std::max_element(all.stages.begin(), all.stages.end(),
                               [](const Plan& a, const Plan& b) { return a.memory.total < b.memory.total; });
  return all;
}

constexpr std::int64_t kLengthStep = 64;  // tokens

std::int64_t most_tokens(const RunConfig& config, const ModelInfo& info) {
  const SparseAttentionConfig& sparse = config.model.sparse_attention;
  const std::int64_t most = sparse.mode == SparsityMode::dense ? 1 << 20 : sparse.max_seq_length;
  return info.positions > 0 ? std::min(most, info.positions) : most;
}

}  // namespace

std::int64_t Planned::host() const {
  std::int64_t most = plan.memory.host;
  for (const Plan& stage : stages) most = std::max(most, stage.memory.host);
  return most;
}

Room room_of(const RunConfig& config) {
  const int ranks = configured_ranks(config.distributed);
  const auto ops =
      make_ops(device_of(config), {.attention = attention_of(config), .fp8_rows = config.training.fp8});
  return {.workspace = ops->workspace(),
          .driver = driver_memory(*ops),
          .there = ops->free_memory() / sharing(*ops, ranks) + ops->driver_memory(),
          .host = free_host_memory(*ops) / ranks};
}

Planned planned(const RunConfig& config, const BuiltData* data, Room room,
                std::optional<std::int64_t> length) {
  return plan_stages(config, build_stages(config), data, room, length);
}

// A tenth on CPUs, because other programs use their memory too. Less on a GPU: all memory that ft takes there
// is planned; only NCCL's is not.
std::int64_t left_free(Device device, std::int64_t there) {
  constexpr std::int64_t kOfGpu = std::int64_t{2} << 30;
  const std::int64_t tenth = there / 10;
  return device.kind == Device::Kind::cpu ? tenth : std::min(tenth, std::max(kOfGpu, there * 3 / 100));
}

std::int64_t driver_memory(const Ops& ops) {
  const std::int64_t now = ops.driver_memory();
  return now > 0 ? now + CudaWorkspace::kLater : 0;
}

bool saves_beside(const RunConfig& config, Model& model, PlanRequest request, std::int64_t there,
                  std::int64_t host) {
  const CheckpointingConfig& c = config.checkpointing;
  if (!request.optimizer || c.async_save || c.save_strategy == SaveStrategy::no)
    return request.optimizer && c.async_save.value_or(false);
  if (there == 0) return false;
  request.costs = Costs::none;
  request.saves_beside = true;
  const MemoryReport memory = plan_run(model, request).memory;
  const auto fits = [](std::int64_t bytes, Device device, std::int64_t of) {
    return bytes <= of - left_free(device, of);
  };
  return fits(memory.total, request.device, there) && (host == 0 || fits(memory.host, {}, host));
}

bool saves_beside(const RunConfig& config, Model& model, const PlanRequest& request, const Ops& ops,
                  const Ranks& ranks, Communicator& comm) {
  const std::int64_t there = ops.free_memory() / sharing(ops, ranks.local_size) + ops.driver_memory();
  const bool fits = saves_beside(config, model, request, there, free_host_memory(ops) / ranks.local_size);
  return std::ranges::all_of(asked(comm, fits), [](std::uint8_t yes) { return yes > 0; });
}

RecomputeRange recompute_range(const RunConfig& config, const Model& model, const PlanRequest& request) {
  const std::int64_t least = config.on_gpu() ? model.least_recompute() : 0;
  if (!config.training.gradient_checkpointing) return {least, model.most_recompute()};
  if (config.training.gradient_checkpointing == Checkpointing::off) return {least, 0};
  return {request.recompute, request.recompute};
}

std::int64_t fewest_recomputed(Model& model, PlanRequest request, RecomputeRange range, std::int64_t there) {
  request.costs = Costs::none;
  const auto fits = [&](std::int64_t n) {
    request.recompute = n;
    return plan_run(model, request).memory.total <= there - left_free(request.device, there);
  };
  if (there == 0) return range.most;
  std::int64_t low = range.least - 1, high = range.most;  // low does not fit; high fits or is the last choice
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (fits(middle) ? high : low) = middle;
  }
  return high;
}

std::int64_t choose_recomputed(const RunConfig& config, Model& model, const PlanRequest& request,
                               const Ops& ops, const Ranks& ranks, Communicator& comm) {
  const RecomputeRange range = recompute_range(config, model, request);
  if (range.least == range.most) return range.most;
  std::vector<std::int64_t> fewest(static_cast<std::size_t>(comm.size()));
  fewest[static_cast<std::size_t>(comm.rank())] = fewest_recomputed(
      model, request, range, ops.free_memory() / sharing(ops, ranks.local_size) + ops.driver_memory());
  comm.all_gather_host(std::as_writable_bytes(std::span(fewest)));
  return fewest[static_cast<std::size_t>(request.stage * (comm.size() / ranks.grid.pipeline))];
}

std::int64_t longest_that_fits(const RunConfig& config, Room room) {
  const std::vector<BuiltModel> stages = build_stages(config);
  const std::int64_t most = most_tokens(config, stages[0].made.info);
  return kLengthStep * last_below_zero(most / kLengthStep, [&](std::int64_t steps) {
           // Room::there is left 0, so that the plan recomputes as much as the configuration allows.
           const Planned p =
               plan_stages(config, stages, nullptr, {.workspace = room.workspace, .driver = room.driver},
                           steps * kLengthStep, Costs::none);
           return p.plan.memory.total - room.there - 1;
         });
}

std::int64_t shortest_that_computes(const RunConfig& config, Room room, double flop) {
  const std::vector<BuiltModel> stages = build_stages(config);
  const std::int64_t most = most_tokens(config, stages[0].made.info);
  const std::int64_t below = last_below_zero(most / kLengthStep, [&](std::int64_t steps) {
    return plan_stages(config, stages, nullptr, room, steps * kLengthStep, Costs::flops).plan.computed - flop;
  });
  return (below + 1) * kLengthStep <= most ? (below + 1) * kLengthStep : 0;
}

}  // namespace ft
