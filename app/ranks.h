// Who this process is among the ranks of a run, and how it meets the others.
#pragma once
#include <memory>

#include "app/config.h"
#include "engine/dist/communicator.h"
#include "engine/dist/mesh.h"
#include "engine/ops/ops.h"

namespace ft {

// What ft launch tells rank 0 and all ranks beside torchrun's variables.
inline constexpr const char* kTokenVariable = "FT_TOKEN";        // a secret that all ranks of a job know
inline constexpr const char* kListenerVariable = "FT_LISTENER";  // rank 0: the descriptor it listens on

struct Ranks {
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;  // on this machine
  Address master;
  std::string token;
  std::string config;  // a hash of what all ranks must have alike
  int listener = -1;
  bool root() const { return rank == 0; }
  // A file that every rank writes: rank 0's has the name that was asked for.
  std::string file(const std::string& name) const {
    return root() ? name : name + ".rank-" + std::to_string(rank);
  }
};

// As whoever started this process says (started_by.h), MASTER_ADDR and MASTER_PORT before the configuration;
// else a world of one. UserError(Exit::config) when they contradict each other or the configuration, or when
// a setting asks for what several ranks do not have yet. Binds this process to its share of the machine's
// cores.
Ranks find_ranks(const RunConfig&);

// Meets the others. `ops` must outlive it.
std::unique_ptr<Communicator> make_communicator(const Ranks&, Ops& ops, const DistributedConfig&);

// UserError(Exit::mismatch) unless `value` is the same on all ranks; says what differs.
void require_same(Communicator&, std::int64_t value, const std::string& what);

// The ranks that a configuration asks ft launch for; 1 when it says nothing.
int configured_ranks(const DistributedConfig&);

}  // namespace ft
