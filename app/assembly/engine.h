// From a RunConfig to the device of a run and its memory: the last part, which is made when model, data and
// plan are known.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "app/assembly/built_objective.h"
#include "engine/ops/device.h"
#include "engine/ranks/communicator.h"
#include "engine/train/planner.h"

namespace ft {

// Where a run computes; a rank takes the GPU with its number on the machine.
Device device_of(const RunConfig&, int gpu = 0);
AttentionKernels attention_of(const RunConfig&);
std::unique_ptr<Ops> make_run_ops(const RunConfig&, int gpu, Sums = Sums::in_one_order);

// What computes in the host's memory beside the run's device (Homes::host); null: nothing does.
std::shared_ptr<Ops> make_host_ops(const ZeroOptions&, Device);

// The device, the parameters and the two arenas of a run: all of its memory.
class Engine {
 public:
  // Takes all memory that `plan` says and loads the parameters. UserError(Exit::memory) when it is not there.
  // No communicator: a world of one. observer: around the same Ops, such as TraceOps; the model computes
  // through it. objective: whose other models are held beside the other, as the request has them.
  Engine(std::unique_ptr<Ops>, std::unique_ptr<Communicator>, const BuiltModel&, const PlanRequest&,
         const Plan&, Ops* observer = nullptr, const BuiltObjective* objective = nullptr);
  ~Engine();

  std::unique_ptr<Ops> ops;
  std::shared_ptr<Ops> host;
  std::unique_ptr<Communicator> comm;
  Grid grid;
  ParameterStore store;
  std::optional<ParameterStore> frozen, scoring, valuing;  // of the reference, the reward model, the critic
  Others others;                                           // where they are models of their own
  Arena saved, scratch;
  std::vector<Arena> in_flight;  // see Ctx
  std::optional<Arena> again;
  std::shared_ptr<Depot> kept;  // null: blocks' inputs stay on the device
  std::optional<InputsHome> inputs;
  Ctx context;

  // What an objective's pass over this model is made of.
  Pass pass(Model& model) { return {context, {&model, &store}, others}; }

  MemoryReport memory(bool adapter) const;  // as measured: what was taken, and the arenas' peaks

 private:
  Policy hold(std::optional<ParameterStore>&, const BuiltModel&, const TransientMemory&);
};

// How many of a machine's ranks share the memory of this device: a machine's all of them, a GPU's one.
int sharing(const Ops&, int local_ranks);

// UserError(Exit::memory) when the plan, for each of the ranks that share the device's memory, needs more
// than it has; `advice` says what would take less.
void require_memory(const MemoryReport& planned, const Ops&, const std::string& advice, int local_ranks = 1);

}  // namespace ft
