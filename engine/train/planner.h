// What a run will need, found by running its largest steps on NullOps: the very code that trains, with memory
// that is only counted. Because everything is counted here, nothing is allocated after step 1.
#pragma once
#include <limits>
#include <memory>
#include <vector>

#include "engine/model/model.h"
#include "engine/train/objectives/objective.h"
#include "engine/train/optimizers/optimizer.h"
#include "engine/train/reports/report.h"
#include "engine/train/traffic.h"
#include "engine/zero/parameter_store.h"

namespace ft {

// What is counted beside memory.
enum class Costs : std::uint8_t { none, flops, all };  // all: also what is moved

struct PlanRequest {
  DType dtype = DType::f32;  // of activations
  GridShape grid;
  int stage = 0;                   // of its pipeline, the model's (Model::keep_stage)
  std::int64_t micro_batches = 1;  // of a step, on each rank; what a pipeline has in flight
  ZeroOptions zero{.stage = ZeroStage::of(0)};
  std::int64_t reduce_bucket = std::numeric_limits<std::int64_t>::max();  // elements added up at once
  DType wire = DType::f32;                       // in which gradients travel between ranks
  bool nccl = false;                             // over NCCL, between GPUs
  StatesOf states = no_states;                   // of the optimizer
  std::shared_ptr<const Optimizer> optimizer{};  // null: its own memory and traffic do not count
  std::int64_t recompute = 0;                    // Model::set_recompute
  bool inputs_on_host = false;                   // of blocks: they wait for their backward pass there
  bool adapter = false;                          // an adapter is trained, not the model
  Device device;
  std::int64_t workspace = 0;           // of the device's Ops
  std::int64_t driver = 0;              // what its driver will hold
  std::vector<BatchShape> train, eval;  // the largest: every batch of the run fits into what these need
  std::vector<GenerationShape> generation;
  Costs costs = Costs::all;
  Model* whole = nullptr;          // where ranks share the model: all of it; FLOP are the whole's
  Objective* objective = nullptr;  // null: the cross-entropy of every target
  Model* reference = nullptr;      // the objective's, where it is a model of its own
  Model* scorer = nullptr;         // a reward model
  Model* critic = nullptr;         // trained beside the model, with states of its own
  std::vector<BatchShape> scored;  // by it, as eval
  std::vector<BatchShape> valued;  // by policy, reference and critic, before they are trained on
};

// How the parameters of a frozen model beside the one that is trained are kept, and those of a critic.
ZeroOptions frozen_options(const PlanRequest&);
ZeroOptions critic_options(const PlanRequest&);

struct Plan {
  std::int64_t saved = 0, scratch = 0;  // bytes of the two arenas
  std::int64_t dense = 0;               // Ops::reserve_dense
  // In a pipeline's stage: passes in flight (stage_schedule.h); bytes of the arenas of all but one, and of
  // that for what runs again.
  std::int64_t in_flight = 1, flight = 0, again = 0;
  std::int64_t activations() const { return saved + (in_flight - 1) * flight + again; }
  std::int64_t inputs = 0;                               // bytes of blocks' inputs on the host
  TransientMemory transient, reference, scorer, critic;  // of the stores
  MemoryReport memory;
  double flops = 0;  // of forward and backward of the whole train[0], recomputation not counted
  double flops_per_token = 0;
  double computed = 0;  // FLOP of a rank with recomputation, if anything moves
  // What rank 0 sends; the last micro-step's includes all that ends the step.
  Traffic once, first, middle, last;  // of the only micro-step of a step, or of its first, others and last
  Traffic per_step(std::int64_t accumulation) const {
    return accumulation == 1 ? once : first + middle * (accumulation - 2) + last;
  }
  std::int64_t sent_per_step(std::int64_t accumulation) const { return per_step(accumulation).sent; }
  std::int64_t parameters = 0, trained = 0;
  // Blocks of the model; those that are recomputed; of how many of these only the first keeps its input;
  // those that keep also what is cheap to make again.
  std::int64_t blocks = 0, recomputed = 0, segment = 1, whole = 0;
};

// Model::set_recompute of both.
void set_recompute(const Policy&, const Policy& critic, std::int64_t n);

// The plan of one rank; all take the same. Adapters must be attached and the trained parameters chosen. The
// model is unbound afterwards: add its units to the real store next.
Plan plan_run(Model&, const PlanRequest&);

// FLOP of forward and backward of train[0], nothing recomputed, of each block of a whole model and of its
// ends. What lies between two stacks of blocks counts to the block below. The model is unbound afterwards.
struct BlockCosts {
  std::vector<double> blocks = {};
  EndCosts ends = {};
};
BlockCosts flops_by_block(Model&, const PlanRequest&);

// The report of a store and two arenas, planned or real.
MemoryReport memory_report(const StoreMemory&, std::int64_t saved, std::int64_t scratch, bool adapter);
// Adds that of a store beside it, with the same communicator.
void add_store(MemoryReport& to, const StoreMemory&, const Communicator&, bool adapter);

}  // namespace ft
