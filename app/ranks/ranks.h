// This process among the ranks of a run, and its connection to the others.
#pragma once
#include <memory>

#include "app/config/config.h"
#include "engine/ops/device.h"
#include "engine/parallel/cut.h"
#include "engine/ranks/communicator.h"
#include "engine/ranks/grid.h"
#include "engine/ranks/mesh.h"
#include "engine/ranks/trace_communicator.h"
#include "engine/ranks/wire.h"
#include "engine/zero/parameter_store.h"

namespace ft {

// What ft launch tells rank 0 and all ranks beside torchrun's variables.
inline constexpr const char* kTokenVariable = "FT_TOKEN";        // a secret that all ranks of a job know
inline constexpr const char* kListenerVariable = "FT_LISTENER";  // rank 0: the descriptor it listens on

struct Ranks {
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;  // on this machine
  int gpu = 0;                         // of those that this process sees
  Address master;
  std::string token;
  std::string config;  // a hash of what all ranks must have alike
  int listener = -1;
  GridShape grid;  // of all ranks
  bool root() const { return rank == 0; }
  ModelPart part() const {
    const GridPoint place = grid.place_of(rank);
    return {.tensor = {place.tensor, grid.tensor, grid.shards_rows},
            .experts = {place.data % grid.expert, grid.expert},
            .stage = place.pipeline,
            .stages = grid.pipeline,
            .chunks = grid.chunks};
  }
  // A file that every rank writes: rank 0's has the name that was asked for.
  std::string file(const std::string& name) const {
    return root() ? name : name + ".rank-" + std::to_string(rank);
  }
};

// As whoever started this process says (started_by.h), MASTER_ADDR and MASTER_PORT before the configuration;
// else a world of one. UserError(Exit::config) when they contradict each other or the configuration, such as
// the sizes of its grid. Binds this process to its share of the machine's cores.
Ranks find_ranks(const RunConfig&);

// How many ranks whoever started this process says there are; 0: it is alone.
int ranks_here();

// Connects to the other ranks, over the transport of distributed.backend. `ops` and the observers must
// outlive it. trace: of the collectives as they run, NCCL's not among them. log: of all; between GPUs each is
// waited for, and none runs beside the computation. Null: none. UserError(Exit::config) for NCCL between
// CPUs, (Exit::hardware) if a rank lacks it.
std::unique_ptr<Communicator> make_communicator(const Ranks&, Ops& ops, const RunConfig&,
                                                CommunicationObserver* trace = nullptr,
                                                CommunicationObserver* log = nullptr);

// UserError(Exit::mismatch) unless `value` is the same on all ranks; says what differs.
void require_same(Communicator&, std::int64_t value, const std::string& what);

// UserError(Exit::config) unless all ranks see the same existing folder: all of them write checkpoints to it.
void require_one_folder(Communicator&, const std::string& folder);

// The settings' layouts and homes for this many ranks of a ZeRO group (Grid::zero); one rank shards nothing.
// UserError(Exit::config) when the settings contradict each other or the number of ranks, or ask for
// something that ft does not have.
ZeroOptions zero_options(const RunConfig&, int ranks);

// How gradients travel between this many ranks. Gradients are divided by the targets of all ranks as they are
// made, so each carries DeepSpeed's division by the number of ranks, which prescale_gradients puts before the
// sum; without it they are multiplied by that number on the way.
Wire wire_of(const DistributedConfig&, int ranks);

// The ranks that a configuration asks ft launch for, on each machine and on all; 1 when it says nothing.
int configured_ranks(const DistributedConfig&);
int all_ranks(const DistributedConfig&);
// How all of them are arranged: see grid_shape (grid.h).
GridShape grid_of(const DistributedConfig&);

}  // namespace ft
