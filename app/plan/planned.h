// What a configuration will need, found by running one step of it on memory that is only counted.
#pragma once
#include <optional>

#include "app/assembly/built_data.h"
#include "app/ranks/ranks.h"
#include "engine/train/planner.h"

namespace ft {

struct Planned {
  Plan plan;
  BatchShape largest;        // of the training micro-batches
  std::vector<Plan> stages;  // of a pipeline, which may be one; `plan` is that with the most memory
};

// Where a run is planned for, in bytes.
struct Room {
  std::int64_t workspace = 0;  // that the operations take for themselves (Ops::workspace)
  std::int64_t driver = 0;     // that the device's driver will take (Ops::driver_memory)
  std::int64_t there = 0;      // that a rank may take; 0: unknown
};

// Memory of the device that its driver holds, with the kernels that it will load.
std::int64_t driver_memory(const Ops&);

// On this machine, for each of the run's ranks here.
Room room_of(const RunConfig&);

// `data` null, or a `length` given: all sequences are that long (max_seq_length if not given), whatever the
// data.
Planned planned(const RunConfig&, const BuiltData* data, Room, std::optional<std::int64_t> length = {});

// The longest max_seq_length, in steps of 64 tokens up to a million, with which a run fits; 0: none does.
std::int64_t longest_that_fits(const RunConfig&, Room);

// The shortest max_seq_length, in steps of 64 tokens up to a million, with which a micro-step computes that
// many FLOP, what is recomputed included; 0: none does.
std::int64_t shortest_that_computes(const RunConfig&, Room, double flop);

// Bytes that an automatic choice leaves free where so many are there.
std::int64_t left_free(Device, std::int64_t there);

// From the least to the most recomputation (Model::set_recompute).
struct RecomputeRange {
  std::int64_t least = 0, most = 0;
};
// The choice that training.gradient_checkpointing leaves: for auto all there is; for false, on a GPU, how many
// blocks keep also what is cheap to make again. CPUs have other programs to share their memory with.
RecomputeRange recompute_range(const RunConfig&, const Model&, const PlanRequest&);

// The least recomputation of the range that leaves as much of `there` bytes free; the most of it where even
// that is too little, or `there` is 0.
std::int64_t fewest_recomputed(Model&, PlanRequest, RecomputeRange, std::int64_t there);

// The same as the first rank of the stage sees it, so that memory and messages are alike on all its ranks.
std::int64_t choose_recomputed(const RunConfig&, Model&, const PlanRequest&, const Ops&, const Ranks&,
                               Communicator&);

}  // namespace ft
