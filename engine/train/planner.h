// Computes the needs of a run by running its largest steps on NullOps: the same code as in training, with
// memory that is only counted. Because everything is counted here, nothing is allocated after step 1.
#pragma once
#include <limits>
#include <memory>
#include <vector>

#include "engine/layers/attention/kv_cache.h"
#include "engine/model/model.h"
#include "engine/ranks/encryption.h"
#include "engine/train/objectives/objective.h"
#include "engine/train/optimizers/optimizer.h"
#include "engine/train/reports/report.h"
#include "engine/train/traffic.h"
#include "engine/zero/parameter_store.h"

namespace ft {

// Costs to count in addition to memory.
enum class Costs : std::uint8_t { none, flops, all };  // all: FLOPs and moved bytes

struct PlanRequest {
  DType dtype = DType::f32;  // of activations
  GridShape grid;
  int stage = 0;                   // its stage in the model's pipeline (Stages::keep_stages)
  std::int64_t micro_batches = 1;  // of a step, on each rank; a pipeline may have them in flight
  ZeroOptions zero{.stage = ZeroStage::of(0)};
  std::int64_t reduce_bucket = std::numeric_limits<std::int64_t>::max();  // elements reduced at once
  DType wire = DType::f32;                       // dtype of gradients sent between ranks
  Encryption encryption = Encryption::none;      // of messages over TCP
  bool nccl = false;                             // ranks communicate over NCCL, between GPUs
  StatesOf states = no_states;                   // of the optimizer
  std::shared_ptr<const Optimizer> optimizer{};  // null: its memory and traffic are not counted
  std::int64_t recompute = 0;                    // see Model::set_recompute
  bool inputs_on_host = false;                   // blocks' inputs wait in host memory for the backward pass
  bool adapter = false;                          // an adapter is trained, not the model
  bool saves_beside = false;                     // checkpoints are written beside training (saving.h)
  Device device;
  std::int64_t workspace = 0;                       // bytes of the device's Ops
  std::int64_t driver = 0;                          // bytes that the device's driver will use
  std::vector<BatchShape> train, eval;              // largest shapes: no batch of the run needs more memory
  std::vector<GenerationShape> generation, taught;  // by the model; by the reference, which is a teacher
  Costs costs = Costs::all;
  Model* whole = nullptr;          // the complete model if ranks share it; its FLOPs are counted
  Objective* objective = nullptr;  // null: the cross-entropy of every target
  Model* reference = nullptr;      // the objective's reference, if it is a separate model
  Model* scorer = nullptr;         // a reward model
  Model* critic = nullptr;         // trained together with the model, with separate states
  std::vector<BatchShape> scored;  // scored by the reward model, as eval
  std::vector<BatchShape> valued;  // by policy, reference and critic, before they are trained on
};

// Return how a frozen model's parameters are kept, and a critic's.
ZeroOptions frozen_options(const PlanRequest&);
ZeroOptions critic_options(const PlanRequest&);

struct Plan {
  std::int64_t saved = 0, scratch = 0;  // bytes of the two arenas
  std::int64_t dense = 0;               // see Ops::reserve_dense
  // In a pipeline's stage: passes in flight (stage_schedule.h); bytes of the arena of each pass but one;
  // bytes of the arena for recomputation.
  std::int64_t in_flight = 1, flight = 0, again = 0;
  std::int64_t activations() const { return saved + (in_flight - 1) * flight + again; }
  std::int64_t inputs = 0;    // bytes of blocks' inputs in host memory
  std::int64_t snapshot = 0;  // bytes of a checkpoint's snapshot, which `memory` includes with saves_beside
  bool saves_beside = false;
  TransientMemory transient, reference, scorer, critic;  // by store
  MemoryReport memory;
  double flops = 0;  // forward and backward of the complete train[0], without recomputation
  double flops_per_token = 0;
  double computed = 0;  // FLOPs of a rank with recomputation, if data is moved
  // Bytes that rank 0 sends and moves. The last micro-step includes the end of the step.
  Traffic once, first, middle, last;  // once: a step's only micro-step; else by place
  Traffic per_step(std::int64_t accumulation) const {
    return accumulation == 1 ? once : first + middle * (accumulation - 2) + last;
  }
  std::int64_t sent_per_step(std::int64_t accumulation) const { return per_step(accumulation).sent; }
  std::int64_t parameters = 0, trained = 0;
  // Blocks of the model; recomputed blocks; number of these that share one stored input (the first one's);
  // blocks that also keep results that are cheap to compute again.
  std::int64_t blocks = 0, recomputed = 0, segment = 1, whole = 0;
};

// Calls Model::set_recompute of both models.
void set_recompute(const Policy&, const Policy& critic, std::int64_t n);

// Returns the plan of one rank, which is equal on all ranks. Adapters must be attached and the trained
// parameters chosen. Afterwards the model is unbound: add its units to the real store next.
Plan plan_run(Model&, const PlanRequest&);

// FLOPs of forward and backward of train[0], without recomputation, for each block of a complete model and
// for its ends. A layer between two stacks of blocks counts to the block below. Afterwards the model is
// unbound.
struct BlockCosts {
  std::vector<double> blocks = {};
  EndCosts ends = {};
};
BlockCosts flops_by_block(Model&, const PlanRequest&);

// Returns the report of a store and two arenas, planned or real.
MemoryReport memory_report(const StoreMemory&, std::int64_t saved, std::int64_t scratch, bool adapter);
// Adds the memory of another store that uses the same communicator.
void add_store(MemoryReport& to, const StoreMemory&, const Communicator&, bool adapter);
// Adds the snapshot of a checkpoint.
void add_snapshot(MemoryReport& to, std::int64_t bytes, Device);

}  // namespace ft
