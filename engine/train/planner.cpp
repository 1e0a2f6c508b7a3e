#include "engine/train/planner.h"

#include <algorithm>

#include "engine/ops/null_ops.h"
#include "engine/ops/trace_ops.h"
#include "engine/ranks/mesh_communicator.h"
#include "engine/train/planned_passes.h"
#include "engine/train/snapshot.h"
#include "engine/train/stage_schedule.h"
#include "engine/zero/file_depot.h"
#include "engine/zero/planned.h"

namespace ft {
namespace {

constexpr std::int64_t kLate = std::int64_t{1} << 60;  // a step after the special first steps of optimizers

// Returns true if each micro-step moves offloaded data, so that its traffic differs.
bool moves(const PlanRequest& r) {
  return r.inputs_on_host || r.zero.params_home.home != Home::device ||
         r.zero.states_home.home != Home::device;
}

// Returns the FLOPs of the complete micro-batch, whichever ranks share it, on this rank's part of the model.
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

// Runs one micro-step of a step, as Trainer::step does, and returns its traffic.
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
    store.reduction().add_up_ends();
    Arena scratch = endless(null);
    {
      Scope scope(scratch);
      const Tensor loss = scratch.take({1}, DType::f64);
      if (p.grid->pipeline()) p.grid->pipeline()->all_reduce(loss);
      comm.all_reduce(loss);
    }
    for (std::int64_t left = p.objective.column_sums(); left > 0; left -= kSumsAtOnce) {
      Scope sums(scratch);
      comm.all_reduce(scratch.take({std::min(left, kSumsAtOnce)}, DType::f64));
    }
    store.grad_norm();
    if (r.optimizer) {
      take_step(null, store, *r.optimizer, {.rate = 1, .grad_scale = 1, .step = kLate}, &scratch);
    } else {
      store.stepping().each_run([](const FlatRun&) {});
      store.publish();
    }
    if (p.critic) step_critic(p, null, r, scratch);
    peaks.scratch = std::max(peaks.scratch, scratch.peak());
  }
  return traffic_of(comm, store, &inputs) - before;
}

// Counts the traffic of a step's micro-steps. If everything is on the device, all of them but the last are
// equal.
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
  if (each) {  // a micro-step may leave a fetch to the next one: from the third on they are equal
    begin();
    for (int i = 0; i < 3; ++i) plan.middle = next(false);
    next(true);
  } else {
    plan.once = plan.last;
  }
  if (!r.zero.early) return;  // the rest measures the memory of early stepping
  Peaks unused;
  store.begin_step(EarlyStep{[](Ops&, const FlatRun&) {}, r.zero.delayed});
  store.begin_micro_step(true);
  run_batch(p, null, r.train[0], true, unused);
  store.stepping().finish_early();
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

// Adds another store. Its communicator is the policy's, whose memory is counted already.
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

void add_snapshot(MemoryReport& to, std::int64_t bytes, Device device) {
  const bool one = device.kind == Device::Kind::cpu;  // the device's memory is the host's
  (one ? to.snapshot : to.host) += bytes;
  if (one) to.total += bytes;
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
  const auto supervised = make_objective({});
  MadeUpBatches batches;
  run_batch({*supervised, {&model, &store}, {}, {}, r.dtype, nullptr, batches}, trace, r.train[0], true,
            unused);
  struct Units final : Visitor {
    void unit(std::string_view name) override { all.emplace_back(name, blocks); }
    void block(std::string_view name) override {
      ++blocks;
      unit(name);
    }
    std::vector<std::pair<std::string, std::size_t>> all;  // with the number of blocks up to it
    std::size_t blocks = 0;
  } units;
  model.visit(units);
  BlockCosts costs{.blocks = std::vector<double>(units.blocks)};
  for (const TraceCall& call : trace.calls()) {
    const auto of = std::find_if(units.all.begin(), units.all.end() - 1, [&](const auto& unit) {
      return call.where == unit.first || call.where.starts_with(unit.first + ".");
    });
    const bool head = of == units.all.end() - 1;  // includes the last norm
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

// Makes the store of a model other than the trained one, if the model exists.
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

// Adds a store's memory to the report.
TransientMemory count_beside(const std::optional<ParameterStore>& store, const Communicator& comm,
                             bool adapter, MemoryReport& to) {
  if (!store) return {};
  add_store(to, store->memory(), comm, adapter);
  return store->transient();
}

// Returns the bytes of the communicator's buffers. On GPUs they are in host memory or NCCL's, except the
// buffer for sums in 16 bits.
std::int64_t buffers_between_ranks(const PlanRequest& r) {
  const int ranks = r.grid.ranks();
  if (r.device.kind == Device::Kind::cpu)
    return MeshCommunicator::memory_of(ranks, r.reduce_bucket, r.encryption);
  return ranks > 1 && r.nccl ? narrow_elements(r.wire, r.reduce_bucket, ranks) * size_of(r.wire) : 0;
}

void count_snapshot(Plan& plan, const PlanRequest& r, ParameterStore& store, ParameterStore* critic) {
  if (!r.optimizer) return;
  plan.snapshot = snapshot_bytes(store, critic);
  plan.saves_beside = r.saves_beside;
  if (r.saves_beside) add_snapshot(plan.memory, plan.snapshot, r.device);
}

}  // namespace

Plan plan_run(Model& model, const PlanRequest& r) {
  NullOps null(r.device);
  PlannedCommunicator world(r.grid.ranks(), buffers_between_ranks(r), r.wire,
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
  const auto supervised = r.objective ? nullptr : make_objective({});
  MadeUpBatches batches;
  const Passes passes{r.objective ? *r.objective : *supervised,
                      {&model, &store},
                      frozen ? Policy{r.reference, &*frozen} : Policy{},
                      critic ? Policy{r.critic, &*critic} : Policy{},
                      r.dtype,
                      &grid,
                      batches};
  Plan plan;
  EachParameter count([&](Parameter& p) {
    plan.parameters += p.elements();
    if (p.trainable) plan.trained += p.whole_shape().numel();
  });
  model.visit(count);
  // Experts receive an unknown number of rows, on the average as many as the rank sends.
  if (r.costs != Costs::none && r.grid.expert == 1) {
    plan.flops = plan.computed = flops_of(passes, null, r, 0);
    if (r.recompute > 0 && moves(r)) plan.computed = flops_of(passes, null, r, r.recompute);
  }
  if (r.costs != Costs::none && r.whole) plan.flops = whole_flops(r);
  if (r.grid.expert > 1) plan.computed = plan.flops;
  plan.computed /= r.grid.sequence;
  if (!r.train.empty()) plan.flops_per_token = plan.flops / static_cast<double>(r.train[0].all_tokens());
  plan.blocks = model.blocks();
  plan.recomputed = std::clamp<std::int64_t>(r.recompute, 0, plan.blocks);
  plan.whole = std::clamp<std::int64_t>(-r.recompute, 0, plan.blocks);
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
  Passes of_teacher = passes;
  of_teacher.policy = passes.reference;
  for (const GenerationShape& s : r.taught) run_generation(of_teacher, null, s, peaks);
  count_traffic(plan, passes, null, r, peaks);
  plan.transient = store.transient();
  plan.inputs = inputs.peak;
  plan.saved = peaks.saved, plan.scratch = peaks.scratch;
  plan.flight = peaks.flight, plan.again = peaks.again;
  plan.dense = null.dense();
  plan.memory =
      memory_report(store.memory(), plan.activations(), plan.scratch + r.workspace + plan.dense, r.adapter);
  plan.memory.cuda = r.driver;
  plan.memory.total += r.driver;
  plan.memory.host += plan.inputs;
  plan.reference = count_beside(frozen, comm, true, plan.memory);
  plan.scorer = count_beside(scorer, comm, true, plan.memory);
  plan.critic = count_beside(critic, comm, r.adapter, plan.memory);
  count_snapshot(plan, r, store, critic ? &*critic : nullptr);
  return plan;
}

}  // namespace ft
