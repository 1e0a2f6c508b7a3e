// This process's place among the ranks of a run, and its connection to them.
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

// Variables that ft launch sets in addition to torchrun's.
inline constexpr const char* kTokenVariable = "FT_TOKEN";        // a secret of all ranks of a job
inline constexpr const char* kListenerVariable = "FT_LISTENER";  // the descriptor at which rank 0 listens

struct Ranks {
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;  // on this machine
  int gpu = 0;                         // index among the GPUs that this process sees
  Address master;
  std::string token;
  std::string config;  // hash of the settings that all ranks must agree on
  int listener = -1;
  GridShape grid;  // the arrangement of all ranks
  bool root() const { return rank == 0; }
  ModelPart part() const {
    const GridPoint place = grid.place_of(rank);
    return {.tensor = {place.tensor, grid.tensor, grid.shards_rows},
            .experts = {place.data % grid.expert, grid.expert},
            .stage = place.pipeline,
            .stages = grid.pipeline,
            .chunks = grid.chunks};
  }
  // Returns the name of a file that every rank writes. Rank 0's has the given name, the others' a suffix.
  std::string file(const std::string& name) const {
    return root() ? name : name + ".rank-" + std::to_string(rank);
  }
};

// Finds this process's place from the launcher's variables (started_by.h); MASTER_ADDR and MASTER_PORT
// override the configuration. Without a launcher there is one rank. Throws UserError (config) if the
// variables contradict each other or the configuration, such as the sizes of its grid. Binds the process to
// its part of the machine's cores.
Ranks find_ranks(const RunConfig&);

// Returns the number of ranks by the launcher's variables; 0: no launcher started this process.
int ranks_here();

// Connects to the other ranks over the transport of distributed.backend. `ops` and the observers must outlive
// the communicator; observers may be null. `trace` sees collectives as they run, except NCCL's. `log` sees
// all; on GPUs each collective is then waited for, and none runs beside the computation. Throws UserError
// (config) for NCCL between CPUs, (hardware) if a rank lacks NCCL.
std::unique_ptr<Communicator> make_communicator(const Ranks&, Ops& ops, const RunConfig&,
                                                CommunicationObserver* trace = nullptr,
                                                CommunicationObserver* log = nullptr);

// Throws UserError (mismatch) unless `value` is the same on all ranks; the message names `what`.
void require_same(Communicator&, std::int64_t value, const std::string& what);

// Throws UserError (config) unless all ranks see the same folder, because all of them write checkpoints to
// it.
void require_one_folder(Communicator&, const std::string& folder);

// Returns the ZeRO options for `ranks` ranks of a ZeRO group (Grid::zero); one rank shards nothing. Throws
// UserError (config) if the settings contradict each other or the number of ranks, or need something that ft
// does not have.
ZeroOptions zero_options(const RunConfig&, int ranks);

// Returns the dtype and scale of gradients that `ranks` ranks send. ft divides gradients by the targets of
// all ranks when it computes them, so they already include DeepSpeed's division by the number of ranks. With
// prescale_gradients they are sent so. Without it they are sent multiplied by the number of ranks (divided by
// gradient_predivide_factor), as DeepSpeed's are. The scale matters only for 16-bit types.
Wire wire_of(const DistributedConfig&, int ranks);

// Return the ranks that a configuration asks ft launch for, on each machine and on all; 1 if it does not say.
int configured_ranks(const DistributedConfig&);
int all_ranks(const DistributedConfig&);
// Returns the arrangement of all configured ranks (grid.h).
GridShape grid_of(const DistributedConfig&);

}  // namespace ft
