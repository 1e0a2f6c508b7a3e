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
  std::int64_t there = 0;      // that a rank may take; 0: unknown
};

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

// gradient_checkpointing auto: how little recomputation (Model::set_recompute) leaves a tenth of `there`
// bytes free; all that helps where even that is too much or `there` is 0.
std::int64_t fewest_recomputed(Model&, PlanRequest, std::int64_t there);

// The same as the first rank of the stage sees it, so that memory and messages are alike on all its ranks.
std::int64_t choose_recomputed(Model&, const PlanRequest&, const Ops&, const Ranks&, Communicator&);

}  // namespace ft
