// Plans the memory and arithmetic of a configuration by running a step of it on memory that is only counted.
#pragma once
#include <optional>

#include "app/assembly/built_data.h"
#include "app/ranks/ranks.h"
#include "engine/train/planner.h"

namespace ft {

struct Planned {
  Plan plan;
  BatchShape largest;        // the largest training micro-batch
  std::vector<Plan> stages;  // plans of all pipeline stages; `plan` is the one with most memory
  // Returns the host memory of the stage that takes most of it.
  std::int64_t host() const;
};

// The memory for which a run is planned, in bytes.
struct Room {
  std::int64_t workspace = 0;  // workspace of the operations (Ops::workspace)
  std::int64_t driver = 0;     // memory that the device's driver will take (Ops::driver_memory)
  std::int64_t there = 0;      // memory that a rank may take; 0: unknown
  std::int64_t host = 0;       // for a GPU: host memory that a rank may take; 0: unknown
};

// Returns true if a run with an optimizer writes checkpoints beside training: checkpointing.async_save if it
// is set; else true if checkpoints are saved and a snapshot fits a rank's device memory (`there`; 0: it does
// not fit) and, on a GPU, its host memory (`host`; 0: unknown, it fits).
bool saves_beside(const RunConfig&, Model&, PlanRequest, std::int64_t there, std::int64_t host);
// Returns the same on all ranks of a run: true if every rank has the memory.
bool saves_beside(const RunConfig&, Model&, const PlanRequest&, const Ops&, const Ranks&, Communicator&);

// Returns the device memory of its driver, kernels that it will load later included.
std::int64_t driver_memory(const Ops&);

// Returns the memory of this machine for each of the run's ranks on it.
Room room_of(const RunConfig&);

// Plans a configuration. If `data` is null or a `length` is given, all sequences have that length (default:
// max_seq_length), whatever the data.
Planned planned(const RunConfig&, const BuiltData* data, Room, std::optional<std::int64_t> length = {});

// Returns the longest max_seq_length with which a run fits, in steps of 64 tokens up to a million; 0: none
// fits.
std::int64_t longest_that_fits(const RunConfig&, Room);

// Returns the shortest max_seq_length, in steps of 64 tokens up to a million, with which a micro-step
// computes that many FLOP, recomputation included; 0: there is none.
std::int64_t shortest_that_computes(const RunConfig&, Room, double flop);

// Returns the bytes of `there` that an automatic choice leaves free.
std::int64_t left_free(Device, std::int64_t there);

// The least and the most recomputation to choose from (Model::set_recompute).
struct RecomputeRange {
  std::int64_t least = 0, most = 0;
};
// Returns the choices that training.gradient_checkpointing leaves. auto: all of them. false on a GPU: how
// many blocks also keep values that are cheap to recompute. false on a CPU: none, because other programs
// share its memory.
RecomputeRange recompute_range(const RunConfig&, const Model&, const PlanRequest&);

// Returns the least recomputation of the range with which the run fits into `there` bytes and leaves
// left_free() of them. Returns the most of the range if even that is too little, or if `there` is 0.
std::int64_t fewest_recomputed(Model&, PlanRequest, RecomputeRange, std::int64_t there);

// Chooses the recomputation of a running rank. All ranks of a pipeline stage take the choice of the stage's
// first rank, so that their memory and messages agree.
std::int64_t choose_recomputed(const RunConfig&, Model&, const PlanRequest&, const Ops&, const Ranks&,
                               Communicator&);

}  // namespace ft
