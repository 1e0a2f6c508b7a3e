#include "app/assembly/engine.h"

#include <limits>

#include "app/screen/format.h"
#include "engine/cpu/cpu_ops.h"
#include "engine/cpu/memory.h"
#include "engine/cuda/gpu_depots.h"
#include "engine/ops/ops.h"
#include "engine/ranks/local.h"
#include "engine/zero/file_depot.h"

namespace ft {

AttentionKernels attention_of(const RunConfig& config) {
  return config.model.attn_implementation == AttnImplementation::cudnn ? AttentionKernels::vendor
                                                                       : AttentionKernels::own;
}

Device device_of(const RunConfig& config, int gpu) {
  if (config.device == Device::Kind::cuda) return {Device::Kind::cuda, gpu};
  return {};
}

std::unique_ptr<Ops> make_run_ops(const RunConfig& config, int gpu, Sums sums) {
  return make_ops(device_of(config, gpu), {.attention = attention_of(config),
                                           .sums = sums,
                                           .fp8_rows = config.training.fp8,
                                           .tuning_file = config.training.gemm_tuning.value_or("")});
}

namespace {

std::shared_ptr<Depot> depot_of(const Residence& r, Ops& ops) {
  return ops.device().kind == Device::Kind::cpu ? make_depot(r) : make_gpu_depot(ops, r);
}

}  // namespace

std::shared_ptr<Ops> make_host_ops(const ZeroOptions& zero, Device device) {
  if (!zero.early) return nullptr;
  return std::make_shared<cpu::CpuOps>(device.kind == Device::Kind::cpu ? 1 : cpu::usable_cores());
}

Engine::Engine(std::unique_ptr<Ops> device, std::unique_ptr<Communicator> talk, const BuiltModel& b,
               const PlanRequest& request, const Plan& plan, Ops* observer, const BuiltObjective* objective)
    : ops(std::move(device)),
      host(make_host_ops(request.zero, ops->device())),
      comm(talk ? std::move(talk) : std::make_unique<LocalCommunicator>(*ops)),
      grid(*comm, request.grid),
      store(*ops, grid.zero(), request.zero, request.states,
            {depot_of(request.zero.params_home, *ops), depot_of(request.zero.states_home, *ops), host},
            &grid),
      saved(make_arena(*ops, plan.saved)),
      scratch(make_arena(*ops, plan.scratch)),
      context{observer ? *observer : *ops, saved, scratch, {request.dtype}} {
  ops->reserve_dense(plan.dense);
  context.grid = &grid;
  for (std::int64_t i = 1; i < plan.in_flight; ++i) in_flight.push_back(make_arena(*ops, plan.flight));
  context.in_flight = in_flight;
  if (plan.again > 0) context.again = &again.emplace(make_arena(*ops, plan.again));
  if (plan.inputs > 0) {
    kept = depot_of({.home = Home::host}, *ops);
    kept->reserve(plan.inputs);
    kept->open();
    context.inputs = &inputs.emplace(*kept);
  }
  if (request.saves_beside) {
    const auto memory = depot_of({.home = Home::host}, *ops);
    memory->reserve(plan.snapshot);
    memory->open();
    snapshot.emplace(memory);
  }
  b.model().add_units(store);
  store.reserve(plan.transient);
  if (b.base) store.load(b.reader());
  const auto frozen_store = [&](std::optional<ParameterStore>& in) {
    in.emplace(*ops, grid.zero(), frozen_options(request), no_states,
               Homes{depot_of(request.zero.params_home, *ops), nullptr, nullptr});
  };
  if (objective && objective->reference) {
    frozen_store(frozen);
    others.reference = hold(frozen, *objective->reference, plan.reference);
  }
  if (objective && objective->scorer) {
    frozen_store(scoring);
    others.scorer = hold(scoring, *objective->scorer, plan.scorer);
  }
  if (objective && objective->critic) {
    valuing.emplace(
        *ops, grid.zero(), critic_options(request), request.states,
        Homes{depot_of(request.zero.params_home, *ops), depot_of(request.zero.states_home, *ops), nullptr});
    others.critic = hold(valuing, *objective->critic, plan.critic);
  }
  set_recompute({&b.model(), &store}, others.critic, request.recompute);
}

Engine::~Engine() = default;

Policy Engine::hold(std::optional<ParameterStore>& in, const BuiltModel& held,
                    const TransientMemory& transient) {
  held.model().add_units(*in);
  in->reserve(transient);
  if (held.base) in->load(held.reader());
  return {&held.model(), &*in};
}

MemoryReport Engine::memory(bool adapter) const {
  const bool one = ops->device().kind == Device::Kind::cpu;  // the device's memory is the host's
  const std::int64_t workspace = ops->workspace() + (host && one ? host->workspace() : 0);
  std::int64_t largest = saved.peak();  // any of them may have had the largest micro-batch
  for (const Arena& a : in_flight) largest = std::max(largest, a.peak());
  std::int64_t activations = largest + (again ? again->peak() : 0);
  for (const Arena& a : in_flight) activations += std::min(a.capacity(), largest);
  MemoryReport m = memory_report(store.memory(), activations, scratch.peak() + workspace, adapter);
  m.cuda = ops->driver_memory();
  m.total += m.cuda;
  if (kept) m.host += kept->size();
  if (snapshot) add_snapshot(m, snapshot->size(), ops->device());
  for (const auto* beside : {&frozen, &scoring, &valuing})
    if (*beside) add_store(m, (*beside)->memory(), grid.zero(), beside != &valuing || adapter);
  return m;
}

int sharing(const Ops& ops, int local_ranks) {
  return ops.device().kind == Device::Kind::cpu ? local_ranks : 1;
}

std::int64_t free_host_memory(const Ops& ops) {
  if (ops.device().kind == Device::Kind::cpu) return 0;
  const std::int64_t free = cpu::available_memory();
  return free == std::numeric_limits<std::int64_t>::max() ? 0 : free;
}

void require_memory(const MemoryReport& planned, const Ops& ops, const MemoryAdvice& advice,
                    int local_ranks) {
  const auto fits = [](std::int64_t bytes, int ranks, std::int64_t there) {
    return there == 0 || bytes <= there / ranks;
  };
  const auto each = [](int ranks) {
    return ranks == 1 ? std::string("this run") : str("each of the ", ranks, " ranks on this machine");
  };
  const std::int64_t there = ops.free_memory() + ops.driver_memory(), host = free_host_memory(ops);
  if (const int ranks = sharing(ops, local_ranks); !fits(planned.total, ranks, there))
    throw UserError(Exit::memory,
                    str(each(ranks), " needs ", show::memory(planned.total), " but only ",
                        show::memory(there), " is free (weights ", show::memory(planned.weights),
                        ", optimizer ", show::memory(planned.optimizer + planned.gradients), ", activations ",
                        show::memory(planned.activations + planned.scratch), ")\n  try: ", advice.device));
  if (!fits(planned.host, local_ranks, host))
    throw UserError(Exit::memory, str(each(local_ranks), " needs ", show::memory(planned.host),
                                      " of the host's memory but only ", show::memory(host),
                                      " is free there\n  try: ", advice.host));
}

}  // namespace ft
