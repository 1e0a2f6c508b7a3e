#include "engine/train/planner.h"

#include <algorithm>
#include <numeric>

#include "engine/dist/file_depot.h"
#include "engine/dist/mesh_communicator.h"
#include "engine/dist/planned.h"
#include "engine/nn/sequence_part.h"
#include "engine/ops/null_ops.h"
#include "engine/ops/trace_ops.h"
#include "engine/train/pipeline.h"
#include "engine/train/stage_schedule.h"

namespace ft {
namespace {

constexpr std::int64_t kEndless = std::int64_t{1} << 60;
constexpr std::int64_t kLate = std::int64_t{1} << 60;  // a step after what optimizers begin with

// The length of sequence i: the first is the longest, the others share the rest.
std::int64_t length_of(std::int64_t i, std::int64_t sequences, std::int64_t tokens, std::int64_t longest) {
  const std::int64_t others = std::max<std::int64_t>(1, sequences - 1), rest = tokens - longest;
  return i == 0 ? longest : rest * i / others - rest * (i - 1) / others;
}

// As many rows as blocks are left, of sequences that have enough.
std::vector<std::int32_t> kept_of(const std::vector<std::int32_t>& starts, std::int64_t kept) {
  std::vector<std::int32_t> all{0};
  for (std::size_t s = 1; s < starts.size(); ++s) {
    const std::int64_t left = kept - all.back(), length = starts[s] - starts[s - 1];
    all.push_back(all.back() + static_cast<std::int32_t>(std::min(left, length)));
  }
  return kept > 0 ? all : std::vector<std::int32_t>{};
}

// Gives every sequence its share of the targets, at its end.
void compare(Batch& b, const BatchShape& s) {
  b.compared.value.resize(static_cast<std::size_t>(s.compared));
  b.compared.sample.resize(static_cast<std::size_t>(s.compared));
  for (auto* of_targets : {&b.compared.old, &b.compared.advantages, &b.compared.values, &b.compared.returns})
    of_targets->resize(static_cast<std::size_t>(s.targets));
  const std::int64_t sequences = s.whole > 0 ? 2 * s.compared : s.sequences;
  for (std::int64_t i = 0; i <= sequences; ++i)
    b.compared.first_target.push_back(static_cast<std::int32_t>(s.targets * i / sequences));
  b.compared.first_answer.assign(b.compared.first_target.begin(), b.compared.first_target.end() - 1);
  if (s.whole > 0) return;
  for (std::size_t i = 0; i + 1 < b.starts.size(); ++i)
    for (std::int32_t t = b.compared.first_target[i]; t < b.compared.first_target[i + 1]; ++t)
      b.target_rows[static_cast<std::size_t>(t)] =
          std::max(b.starts[i], b.starts[i + 1] - 1 - (b.compared.first_target[i + 1] - t));
}

// Where rows are shared does not matter, only how many are, and the last place in a sequence.
void share(Batch& b, const BatchShape& s) {
  b.starts = {0};
  for (std::int64_t i = 1; i <= s.sequences; ++i)
    b.starts.push_back(static_cast<std::int32_t>(s.tokens * i / s.sequences));
  b.input_ids.resize(static_cast<std::size_t>(s.tokens));
  b.positions.assign(static_cast<std::size_t>(s.tokens), static_cast<std::int32_t>(s.longest - 1));
  b.whole_rows.resize(static_cast<std::size_t>(s.whole));
  std::iota(b.whole_rows.begin(), b.whole_rows.begin() + static_cast<std::ptrdiff_t>(s.tokens), 0);
  for (std::int64_t i = 0; i <= 2 * s.compared; ++i)
    b.whole_starts.push_back(static_cast<std::int32_t>(s.whole * i / (2 * s.compared)));
}

// A batch of the given shape, with ids that are never read, and targets from a row on.
Batch batch_of(const BatchShape& s, std::int64_t first_target = 0) {
  Batch b;
  b.starts = {0};
  for (std::int64_t i = 0; i < s.sequences; ++i) {
    const std::int64_t length = length_of(i, s.sequences, s.tokens, s.longest);
    for (std::int64_t t = 0; t < length; ++t) b.positions.push_back(static_cast<std::int32_t>(t));
    b.starts.push_back(static_cast<std::int32_t>(b.positions.size()));
  }
  b.input_ids.resize(b.positions.size());
  b.source_starts = {0};
  for (std::int64_t i = 0; i < s.sequences && s.source_tokens > 0; ++i)
    b.source_starts.push_back(
        b.source_starts.back() +
        static_cast<std::int32_t>(length_of(i, s.sequences, s.source_tokens, s.longest_source)));
  b.source_ids.resize(static_cast<std::size_t>(s.source_tokens));
  b.kept_starts = kept_of(b.starts, s.kept);
  b.kept_source_starts = kept_of(b.source_starts, s.kept_source);
  b.target_rows.resize(static_cast<std::size_t>(s.targets));
  std::iota(b.target_rows.begin(), b.target_rows.end(), static_cast<std::int32_t>(first_target));
  b.targets.resize(static_cast<std::size_t>(s.targets));
  if (s.compared > 0) compare(b, s);
  if (s.whole > 0) share(b, s);
  return b;
}

struct Peaks {
  std::int64_t saved = 0, scratch = 0, flight = 0, again = 0;
  InputsHome* inputs = nullptr;
};

// The objective's passes on a model.
struct Passes {
  Objective& objective;
  Policy policy, reference, critic;
  DType dtype;
  const Grid* grid;
};

// Where ranks share a batch, targets lie in rank 0's rows first: no rank has more of them than rows.
std::int64_t first_target(const Grid* grid, std::int64_t tokens) {
  if (!grid) return 0;
  const RowShare share{0, grid->shape.sequence, grid->shape.sharing};
  return share.numbers(share.rows_of(tokens)).first;
}

// One batch through them; peaks grow.
void run_batch(const Passes& p, Ops& ops, const BatchShape& shape, bool train, Peaks& peaks) {
  Arena saved(ops.allocate(0), kEndless), scratch(ops.allocate(0), kEndless),
      again(ops.allocate(0), kEndless);
  Ctx c{ops, saved, scratch, p.dtype, {}, train, train ? peaks.inputs : nullptr};
  c.grid = p.grid;
  Tensor loss = scratch.take({1}, DType::f64);
  const Batch batch = batch_of(shape, first_target(p.grid, shape.tokens));
  const Pass pass{c, p.policy, {p.reference, {}, p.critic}};
  if (train && c.pipeline()) {
    std::vector<Arena> others;  // of the passes of its chunks, any of which may be in any arena
    for (int i = 1; i < p.grid->shape.chunks; ++i) others.emplace_back(ops.allocate(0), kEndless);
    c.in_flight = others;
    c.again = &again;
    run_stage({*p.policy.model, *p.policy.store, c, {loss}, 1, [&](std::int64_t, Ctx&) { return batch; }});
    peaks.flight = std::max(peaks.flight, saved.peak());
    for (const Arena& a : others) peaks.flight = std::max(peaks.flight, a.peak());
    peaks.saved = std::max(peaks.saved, peaks.flight);
    peaks.again = std::max(peaks.again, again.peak());
  } else if (train)
    p.objective.forward_backward(pass, batch, loss, 1);
  else
    p.objective.forward(pass, batch, loss);
  p.objective.take_columns();
  peaks.saved = std::max(peaks.saved, saved.peak());
  peaks.scratch = std::max(peaks.scratch, scratch.peak());
}

void run_scoring(const Policy& scorer, Ops& ops, DType dtype, const BatchShape& shape, Peaks& peaks) {
  Arena saved(ops.allocate(0), kEndless), scratch(ops.allocate(0), kEndless);
  scores_of(Ctx{ops, saved, scratch, dtype}, scorer, batch_of(shape));
  peaks.saved = std::max(peaks.saved, saved.peak());
  peaks.scratch = std::max(peaks.scratch, scratch.peak());
}

// What policy and reference say of answers, and the critic expected of them.
void run_valuing(const Passes& p, Ops& ops, const BatchShape& shape, Peaks& peaks) {
  Arena saved(ops.allocate(0), kEndless), scratch(ops.allocate(0), kEndless);
  Ctx c{ops, saved, scratch, p.dtype, {}, false};
  c.grid = p.grid;
  const Pass pass{c, p.policy, {p.reference, {}, p.critic}};
  for (const bool reference : {false, true}) p.objective.logps(pass, batch_of(shape), reference);
  if (p.critic) scores_of(c, p.critic, batch_of(shape));
  peaks.saved = std::max(peaks.saved, saved.peak());
  peaks.scratch = std::max(peaks.scratch, scratch.peak());
}

// As many sources as a pass will have; one gets what the others leave.
Sources sources_of(const GenerationShape& shape) {
  Sources s;
  const std::int64_t n = shape.cache.sources, longest = shape.cache.source_capacity;
  for (std::int64_t i = 0; i < n && s.starts.back() < shape.source_tokens; ++i) {
    const std::int64_t room = shape.source_tokens - s.starts.back();
    s.starts.push_back(s.starts.back() + static_cast<std::int32_t>(std::min(longest, room)));
    s.places.push_back(static_cast<std::int32_t>(i));
  }
  s.ids.resize(static_cast<std::size_t>(s.starts.back()));
  return s;
}

// A pass with as many tokens as there will be, after the longest past.
void run_generation(const Passes& p, Ops& ops, const GenerationShape& shape, Peaks& peaks) {
  Model& model = *p.policy.model;
  ParameterStore& store = *p.policy.store;
  const DType dtype = p.dtype;
  Arena saved(ops.allocate(0), kEndless), scratch(ops.allocate(0), kEndless);
  Ctx c{ops, saved, scratch, dtype, {}, false};
  c.grid = p.grid;
  const KvCache cache = model.make_kv_cache(saved, shape.cache, dtype);
  const Tensor logits = saved.take({shape.cache.slots, model.vocab_size()}, dtype);
  if (shape.cache.sources > 0) model.encode(c, store, cache, sources_of(shape));
  Continuation next;
  for (std::int64_t i = 0; i < shape.cache.slots; ++i) {
    next.input_ids.resize(static_cast<std::size_t>(shape.tokens * (i + 1) / shape.cache.slots));
    next.starts.push_back(static_cast<std::int32_t>(next.rows()));
    next.slots.push_back(static_cast<std::int32_t>(i));
    next.past.push_back(static_cast<std::int32_t>(shape.cache.capacity) - next.starts.back() +
                        next.starts[next.starts.size() - 2]);
    if (shape.cache.sources == 0) continue;
    next.sources.push_back(static_cast<std::int32_t>(i % shape.cache.sources));
    next.source_lengths.push_back(1);
  }
  model.extend(c, store, cache, next, logits);
  if (const std::int64_t turn = model.keys_turn_at(); 0 < turn && turn < shape.cache.capacity) {
    Continuation all{.slots = {0}, .past = {0}};  // of one sequence, anew
    all.input_ids.resize(static_cast<std::size_t>(turn + 1));
    all.starts.push_back(static_cast<std::int32_t>(turn + 1));
    model.extend(c, store, cache, all, logits.slice(0, 1));
  }
  peaks.saved = std::max(peaks.saved, saved.peak());
  peaks.scratch = std::max(peaks.scratch, scratch.peak());
}

// Whether each of a step's micro-steps has traffic of its own.
bool moves(const PlanRequest& r) {
  return r.inputs_on_host || r.zero.params_home.home != Home::device ||
         r.zero.states_home.home != Home::device;
}

// FLOPs of the whole micro-batch, whichever ranks share it, but of this rank's part of the model.
double flops_of(Passes p, Ops& null, const PlanRequest& r, std::int64_t recompute) {
  if (r.train.empty()) return 0;
  GridPoint sizes = GridShape();
  sizes.tensor = r.grid.tensor;
  sizes.pipeline = r.grid.pipeline;
  GridShape shape(sizes);
  shape.chunks = r.grid.chunks;
  PlannedCommunicator world(sizes.tensor * sizes.pipeline, 0, DType::f32, r.stage * sizes.tensor);
  const Grid parts(world, shape);
  p.grid = &parts;
  TraceOps trace(null);
  Peaks unused;
  set_recompute(p.policy, p.critic, recompute);
  run_batch(p, trace, r.train[0], true, unused);
  return trace.flops();
}

double whole_flops(const PlanRequest& r) {
  PlanRequest one{.dtype = r.dtype, .device = r.device};
  one.train = r.train;
  one.costs = Costs::flops;
  one.objective = r.objective;
  return plan_run(*r.whole, one).flops;
}

void step_critic(const Passes& p, Ops& null, const PlanRequest& r, Arena& scratch) {
  p.critic.store->grad_norm();
  if (r.optimizer)
    take_step(null, *p.critic.store, *r.optimizer, {.rate = 1, .grad_scale = 1, .step = kLate}, &scratch);
}

// One micro-step of a step (Trainer::step).
Traffic micro_step(const Passes& p, Ops& null, const PlanRequest& r, bool last, Peaks& peaks) {
  ParameterStore& store = *p.policy.store;
  PlannedDepot kept(0, Home::host, true);
  InputsHome inputs{kept};
  Peaks unused{.inputs = r.inputs_on_host ? &inputs : nullptr};
  Communicator& comm = store.communicator();
  const Traffic before = traffic_of(comm, store, &inputs);
  store.begin_micro_step(last);
  if (p.critic) p.critic.store->begin_micro_step(last);
  run_batch(p, null, r.train[0], true, unused);
  if (last) {
    store.add_up_ends();
    Arena scratch(null.allocate(0), kEndless);
    {
      Scope scope(scratch);
      const Tensor loss = scratch.take({1}, DType::f64);
      if (p.grid->pipeline()) p.grid->pipeline()->all_reduce(loss);
      comm.all_reduce(loss);
    }
    if (const std::int64_t columns = std::ssize(p.objective.columns())) {
      Scope sums(scratch);
      comm.all_reduce(scratch.take({2 * columns}, DType::f64));
    }
    store.grad_norm();
    if (r.optimizer) {
      take_step(null, store, *r.optimizer, {.rate = 1, .grad_scale = 1, .step = kLate}, &scratch);
    } else {
      store.each_run([](const FlatRun&) {});
      store.publish();
    }
    if (p.critic) step_critic(p, null, r, scratch);
    peaks.scratch = std::max(peaks.scratch, scratch.peak());
  }
  return traffic_of(comm, store, &inputs) - before;
}

// Where everything is on the device all micro-steps but the last are alike.
void count_traffic(Plan& plan, const Passes& p, Ops& null, const PlanRequest& r, Peaks& peaks) {
  if (r.train.empty()) return;
  ParameterStore& store = *p.policy.store;
  const bool each = r.costs == Costs::all && (moves(r) || r.zero.near > 1);
  const bool own = r.optimizer && takes_own(*r.optimizer, kLate);
  const auto next = [&](bool last) { return micro_step(p, null, r, last, peaks); };
  const auto begin = [&] {
    store.begin_step({}, own);
    if (p.critic) p.critic.store->begin_step({}, own);
  };
  if (each) {
    begin();
    plan.once = next(true);
  }
  begin();
  plan.middle = plan.first = next(false);
  plan.last = next(true);
  if (each) {  // a micro-step may leave a fetch to the next one: from the third on they are alike
    begin();
    for (int i = 0; i < 3; ++i) plan.middle = next(false);
    next(true);
  } else {
    plan.once = plan.last;
  }
  if (!r.zero.early) return;  // what units that are stepped early bring
  Peaks unused;
  store.begin_step(EarlyStep{[](Ops&, const FlatRun&) {}, r.zero.delayed});
  store.begin_micro_step(true);
  run_batch(p, null, r.train[0], true, unused);
  store.finish_early();
}

}  // namespace

MemoryReport memory_report(const StoreMemory& s, std::int64_t saved, std::int64_t scratch, bool adapter) {
  MemoryReport m;
  m.weights = s.weights + (adapter ? 0 : s.trained);
  m.adapter = adapter ? s.trained : 0;
  m.gradients = s.gradients;
  m.optimizer = s.optimizer;
  m.activations = saved;
  m.scratch = scratch;
  m.communication = s.communication;
  m.host = s.host;
  m.elsewhere = s.elsewhere;
  m.total = m.weights + m.adapter + m.gradients + m.optimizer + m.activations + m.scratch + m.communication;
  return m;
}

// Its communicator is the policy's.
void add_store(MemoryReport& to, const StoreMemory& s, const Communicator& comm, bool adapter) {
  StoreMemory own = s;
  own.communication -= comm.memory();
  const MemoryReport more = memory_report(own, 0, 0, adapter);
  to.weights += more.weights;
  to.adapter += more.adapter;
  to.gradients += more.gradients;
  to.optimizer += more.optimizer;
  to.communication += more.communication;
  to.host += more.host;
  to.elsewhere += more.elsewhere;
  to.total += more.total;
}

ZeroOptions frozen_options(const PlanRequest& r) {
  ZeroOptions frozen = r.zero;
  frozen.states_home = {};
  frozen.early = frozen.delayed = false;
  return frozen;
}

BlockCosts flops_by_block(Model& model, const PlanRequest& r) {
  NullOps null(r.device);
  PlannedCommunicator one(1, 0);
  ParameterStore store(null, one, {.stage = ZeroStage::of(0)});
  model.add_units(store);
  store.reserve(kMeasured);
  model.set_recompute(0);
  TraceOps trace(null, {.calls = true});
  Peaks unused;
  const auto supervised = make_supervised(0);
  run_batch({*supervised, {&model, &store}, {}, {}, r.dtype, nullptr}, trace, r.train[0], true, unused);
  struct Units final : Visitor {
    void unit(std::string_view name) override { all.emplace_back(name, blocks); }
    void block(std::string_view name) override {
      ++blocks;
      unit(name);
    }
    std::vector<std::pair<std::string, std::size_t>> all;  // and how many blocks there are up to it
    std::size_t blocks = 0;
  } units;
  model.visit(units);
  BlockCosts costs{.blocks = std::vector<double>(units.blocks)};
  for (const TraceCall& call : trace.calls()) {
    const auto of = std::find_if(units.all.begin(), units.all.end() - 1, [&](const auto& unit) {
      return call.where == unit.first || call.where.starts_with(unit.first + ".");
    });
    const bool head = of == units.all.end() - 1;  // the last norm too
    double& end = head ? costs.ends.head : costs.ends.embedding;
    (head || of->second == 0 ? end : costs.blocks[of->second - 1]) += call.flops;
  }
  return costs;
}

ZeroOptions critic_options(const PlanRequest& r) {
  ZeroOptions critic = r.zero;
  critic.early = critic.delayed = false;
  return critic;
}

void set_recompute(const Policy& policy, const Policy& critic, std::int64_t n) {
  policy.model->set_recompute(n);
  if (critic) critic.model->set_recompute(std::min(n, critic.model->blocks()));
}

namespace {

// A store for a model beside the one that is trained, where there is such.
void hold(std::optional<ParameterStore>& in, Model* model, Ops& null, Communicator& comm,
          const PlanRequest& r) {
  if (!model) return;
  const auto params = planned_depot(r.zero.params_home, r.device);
  if (model == r.critic)
    in.emplace(null, comm, critic_options(r), r.states,
               Homes{params, planned_depot(r.zero.states_home, r.device), nullptr});
  else
    in.emplace(null, comm, frozen_options(r), no_states, Homes{params, nullptr, nullptr});
  model->add_units(*in);
  in->reserve(kMeasured);
}

// Adds what it takes to the report.
TransientMemory count_beside(const std::optional<ParameterStore>& store, const Communicator& comm,
                             bool adapter, MemoryReport& to) {
  if (!store) return {};
  add_store(to, store->memory(), comm, adapter);
  return store->transient();
}

}  // namespace

Plan plan_run(Model& model, const PlanRequest& r) {
  NullOps null(r.device);
  // Between GPUs these buffers are the host's, or NCCL's own, but for what sums in 16 bits pass through.
  const bool on_cpus = r.device.kind == Device::Kind::cpu;
  const int ranks = r.grid.ranks();
  const std::int64_t narrow = ranks > 1 && r.nccl ? narrow_elements(r.wire, r.reduce_bucket, ranks) : 0;
  PlannedCommunicator world(
      ranks, on_cpus ? MeshCommunicator::memory_of(ranks, r.reduce_bucket) : narrow * size_of(r.wire), r.wire,
      r.stage * r.grid.ranks() / r.grid.pipeline);
  const Grid grid(world, r.grid);
  Communicator& comm = grid.zero();
  const auto host = r.zero.early ? std::make_shared<NullOps>() : nullptr;
  ParameterStore store(
      null, comm, r.zero, r.states,
      {planned_depot(r.zero.params_home, r.device), planned_depot(r.zero.states_home, r.device), host},
      &grid);
  model.add_units(store);
  store.reserve(kMeasured);
  std::optional<ParameterStore> frozen, scorer, critic;
  hold(frozen, r.reference, null, comm, r);
  hold(scorer, r.scorer, null, comm, r);
  hold(critic, r.critic, null, comm, r);
  const auto supervised = r.objective ? nullptr : make_supervised(0);
  const Passes passes{r.objective ? *r.objective : *supervised,
                      {&model, &store},
                      frozen ? Policy{r.reference, &*frozen} : Policy{},
                      critic ? Policy{r.critic, &*critic} : Policy{},
                      r.dtype,
                      &grid};
  Plan plan;
  EachParameter count([&](Parameter& p) {
    plan.parameters += p.elements();
    if (p.trainable) plan.trained += p.whole_shape().numel();
  });
  model.visit(count);
  // How many rows travel to a rank's experts is not known; on the average as many as leave.
  if (r.costs != Costs::none && r.grid.expert == 1) {
    plan.flops = plan.computed = flops_of(passes, null, r, 0);
    if (r.recompute > 0 && moves(r)) plan.computed = flops_of(passes, null, r, r.recompute);
  }
  if (r.costs != Costs::none && r.whole) plan.flops = whole_flops(r);
  if (r.grid.expert > 1) plan.computed = plan.flops;
  plan.computed /= r.grid.sequence;
  if (!r.train.empty()) plan.flops_per_token = plan.flops / static_cast<double>(r.train[0].all_tokens());
  plan.blocks = model.blocks();
  plan.recomputed = std::min(r.recompute, plan.blocks);
  plan.segment = model.segment_of(r.recompute);
  set_recompute(passes.policy, passes.critic, r.recompute);
  PlannedDepot kept(0, Home::host);
  InputsHome inputs{kept};
  Peaks peaks{.inputs = r.inputs_on_host ? &inputs : nullptr};
  for (const BatchShape& s : r.train) {
    store.begin_micro_step(true);
    if (critic) critic->begin_micro_step(true);
    run_batch(passes, null, s, true, peaks);
  }
  if (!r.train.empty())
    plan.in_flight = in_flight({r.grid.pipeline, r.grid.chunks, r.micro_batches}, r.stage);
  for (const BatchShape& s : r.eval) run_batch(passes, null, s, false, peaks);
  for (const BatchShape& s : r.scored) run_scoring({r.scorer, &*scorer}, null, r.dtype, s, peaks);
  for (const BatchShape& s : r.valued) run_valuing(passes, null, s, peaks);
  for (const GenerationShape& s : r.generation) run_generation(passes, null, s, peaks);
  count_traffic(plan, passes, null, r, peaks);
  plan.transient = store.transient();
  plan.inputs = inputs.peak;
  plan.saved = peaks.saved;
  plan.scratch = peaks.scratch;
  plan.flight = peaks.flight, plan.again = peaks.again;
  plan.memory = memory_report(store.memory(), plan.activations(), plan.scratch + r.workspace, r.adapter);
  plan.memory.host += plan.inputs;
  plan.reference = count_beside(frozen, comm, true, plan.memory);
  plan.scorer = count_beside(scorer, comm, true, plan.memory);
  plan.critic = count_beside(critic, comm, r.adapter, plan.memory);
  return plan;
}

}  // namespace ft
