#include "app/ranks.h"

#include <charconv>
#include <cstdlib>
#include <cstring>

#include "engine/cpu/cores.h"
#include "engine/dist/local.h"
#include "engine/dist/mesh_communicator.h"

namespace ft {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

int number(const char* name, int fallback, int most) {
  const std::string text = variable(name);
  if (text.empty()) return fallback;
  int value = -1;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size() || value < 0 || value > most)
    throw UserError(Exit::config, str(name, " in the environment is \"", printable(text),
                                      "\"; it must be a whole number from 0 to ", most));
  return value;
}

// Only what changes no result may be left undone in silence; a number that somebody chose is not.
void refuse_what_ranks_lack(const ZeroConfig& z) {
  const ZeroConfig usual;
  const auto refuse = [](bool changed, const char* setting) {
    if (changed)
      throw UserError(Exit::config, str("zero_optimization.", setting,
                                        " is not available yet with several ranks; leave it out"));
  };
  refuse(!z.reduce_scatter, "reduce_scatter=false");
  refuse(z.reduce_bucket_size != usual.reduce_bucket_size, "reduce_bucket_size");
  refuse(z.allgather_bucket_size != usual.allgather_bucket_size, "allgather_bucket_size");
  refuse(z.sub_group_size != usual.sub_group_size, "sub_group_size");
  refuse(z.stage3_prefetch_bucket_size != usual.stage3_prefetch_bucket_size, "stage3_prefetch_bucket_size");
  refuse(z.stage3_param_persistence_threshold != usual.stage3_param_persistence_threshold,
         "stage3_param_persistence_threshold");
  refuse(z.stage3_max_live_parameters != usual.stage3_max_live_parameters, "stage3_max_live_parameters");
  refuse(z.stage3_max_reuse_distance != usual.stage3_max_reuse_distance, "stage3_max_reuse_distance");
}

// torchrun's own store may listen at MASTER_PORT; rank 0 takes the port after it.
int master_port(const DistributedConfig& config) {
  const int port = number("MASTER_PORT", static_cast<int>(config.master_port), 65535);
  return variable("TORCHELASTIC_USE_AGENT_STORE") == "True" ? port + 1 : port;
}

}  // namespace

int configured_ranks(const DistributedConfig& config) {
  return static_cast<int>(config.nproc_per_node.value_or(1));
}

Ranks find_ranks(const RunConfig& config) {
  constexpr int kMost = 1 << 16;
  Ranks r;
  const bool rank_given = !variable("RANK").empty(), size_given = !variable("WORLD_SIZE").empty();
  if (rank_given != size_given)
    throw UserError(Exit::config, str(rank_given ? "RANK" : "WORLD_SIZE", " is in the environment without ",
                                      rank_given ? "WORLD_SIZE" : "RANK"));
  const int wanted = configured_ranks(config.distributed);
  if (!rank_given) {
    if (wanted > 1)
      throw UserError(Exit::config, str("distributed.nproc_per_node is ", wanted,
                                        " and this is one process; start it with ft launch train ..."));
    return r;
  }
  r.rank = number("RANK", 0, kMost);
  r.size = number("WORLD_SIZE", 1, kMost);
  r.local_rank = number("LOCAL_RANK", r.rank, kMost);
  r.local_size = number("LOCAL_WORLD_SIZE", r.size, kMost);
  if (r.rank >= r.size || r.local_rank >= r.local_size || r.local_size > r.size)
    throw UserError(Exit::config,
                    str("RANK ", r.rank, " of WORLD_SIZE ", r.size, ", LOCAL_RANK ", r.local_rank,
                        " of LOCAL_WORLD_SIZE ", r.local_size, ": there is no such rank"));
  if (config.distributed.nproc_per_node && wanted != r.local_size)
    throw UserError(Exit::config, str("distributed.nproc_per_node is ", wanted, " and ", r.local_size,
                                      " ranks were started on this machine"));
  if (r.size == 1) return r;
  refuse_what_ranks_lack(config.zero_optimization);
  const std::string host = variable("MASTER_ADDR");
  r.master = {host.empty() ? config.distributed.master_addr : host, master_port(config.distributed)};
  r.job = variable(kJobVariable) + variable("TORCHELASTIC_RUN_ID");
  if (!variable(kListenerVariable).empty()) r.listener = number(kListenerVariable, -1, kMost);
  cpu::take_share_of_cores(r.local_rank, r.local_size);
  return r;
}

std::unique_ptr<Communicator> make_communicator(const Ranks& r, Ops& ops, const DistributedConfig& config) {
  if (r.size == 1) return std::make_unique<LocalCommunicator>(ops);
  const auto seconds = static_cast<double>(config.timeout_s);
  Mesh mesh = meet({.rank = r.rank,
                    .size = r.size,
                    .master = r.master,
                    .listener = Socket(r.root() ? r.listener : -1),
                    .job = r.job,
                    .seconds = seconds});
  return std::make_unique<MeshCommunicator>(ops, std::move(mesh), seconds);
}

void require_same(Communicator& comm, std::int64_t value, const std::string& what) {
  std::int64_t first = value;
  comm.broadcast(std::as_writable_bytes(std::span(&first, 1)), 0);
  if (first != value)
    throw UserError(Exit::mismatch, str(what, " is ", value, " on rank ", comm.rank(), " and ", first,
                                        " on rank 0; all ranks need the same files"));
}

}  // namespace ft
