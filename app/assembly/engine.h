// The device of a run and its memory: the last part to be made, when model, data and plan are known.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "app/assembly/built_objective.h"
#include "engine/ops/device.h"
#include "engine/ranks/communicator.h"
#include "engine/train/planner.h"
#include "engine/train/snapshot.h"

namespace ft {

// Returns the device that a run computes on. A rank takes the GPU with its number on the machine. Throws
// UserError (config) if a setting for GPUs is set on the CPU.
Device device_of(const RunConfig&, int gpu = 0);
AttentionKernels attention_of(const RunConfig&);
std::unique_ptr<Ops> make_run_ops(const RunConfig&, int gpu, Sums = Sums::in_one_order);

// Returns Ops that update weights in host memory during the backward pass (Homes::host); null: the device
// updates them.
std::shared_ptr<Ops> make_host_ops(const ZeroOptions&, Device);

// The device, the parameters and the two arenas of a run: all of its memory.
class Engine {
 public:
  // Takes all memory of the plan and loads the parameters. Throws UserError (memory) if there is less. No
  // communicator: one rank. observer: Ops that wrap the same Ops, such as TraceOps; the model computes
  // through them. objective: its reference, reward model and critic are held too, as in the request.
  Engine(std::unique_ptr<Ops>, std::unique_ptr<Communicator>, const BuiltModel&, const PlanRequest&,
         const Plan&, Ops* observer = nullptr, const BuiltObjective* objective = nullptr);
  ~Engine();

  std::unique_ptr<Ops> ops;
  std::shared_ptr<Ops> host;
  std::unique_ptr<Communicator> comm;
  Grid grid;
  ParameterStore store;
  std::optional<ParameterStore> frozen, scoring, valuing;  // of the reference, the reward model, the critic
  Others others;                                           // models whose stores are above
  Arena saved, scratch;
  std::vector<Arena> in_flight;  // see Ctx
  std::optional<Arena> again;
  std::shared_ptr<Depot> kept;  // null: blocks' inputs stay on the device
  std::optional<InputsHome> inputs;
  std::optional<Snapshot> snapshot;  // of a checkpoint; empty: training waits for checkpoints
  Ctx context;

  // Returns the input of an objective's pass: the context, this model and the other models.
  Pass pass(Model& model) { return {context, {&model, &store}, others}; }

  MemoryReport memory(bool adapter) const;  // as measured: memory taken, and the arenas' peaks

 private:
  Policy hold(std::optional<ParameterStore>&, const BuiltModel&, const TransientMemory&);
};

// Returns how many of a machine's ranks share the memory of this device: all on a CPU, one on a GPU.
int sharing(const Ops&, int local_ranks);

// Returns the bytes of host memory that the ranks of a machine with GPUs may take; 0: the device is the CPU,
// or the system does not tell.
std::int64_t free_host_memory(const Ops&);

// Settings that need less memory, as the ends of messages.
struct MemoryAdvice {
  std::string device, host;
};

// Throws UserError (memory) if this plan, times the ranks that share the device's memory, needs more than is
// free, or if on GPUs it needs more host memory than is free, times the machine's ranks.
void require_memory(const MemoryReport& planned, const Ops&, const MemoryAdvice&, int local_ranks = 1);

}  // namespace ft
