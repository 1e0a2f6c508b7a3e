#include "app/ranks.h"

#include <unistd.h>

#include <algorithm>

#include "app/started_by.h"

#include "engine/cpu/cores.h"
#include "engine/dist/local.h"
#include "engine/dist/mesh_communicator.h"
#include "engine/io/hash.h"

namespace ft {
namespace {

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
  const int port = number_in("MASTER_PORT", static_cast<int>(config.master_port), 65535);
  return variable("TORCHELASTIC_USE_AGENT_STORE") == "True" ? port + 1 : port;
}

// For a rank that cannot end by itself. Nothing of it is half done: files appear whole or not at all.
void end_process(Exit exit, const std::string& text) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = printable(text.substr(begin, end - begin), 2000) + "\n";
    (void)!::write(STDERR_FILENO, line.data(), line.size());
    begin = end + 1;
  }
  ::_exit(static_cast<int>(exit));
}

// What ranks must have alike: everything but where they are.
std::string hash_of(RunConfig config) {
  config.distributed = {};
  return sha256(effective_config(config));
}

}  // namespace

int configured_ranks(const DistributedConfig& config) {
  return static_cast<int>(config.nproc_per_node.value_or(1));
}

Ranks find_ranks(const RunConfig& config) {
  const int wanted = configured_ranks(config.distributed);
  const auto started = started_by();
  if (!started) {
    if (wanted > 1)
      throw UserError(Exit::config, str("distributed.nproc_per_node is ", wanted,
                                        " and this is one process; start it with ft launch train ..."));
    return {};
  }
  Ranks r{.rank = started->rank,
          .size = started->size,
          .local_rank = started->local_rank,
          .local_size = started->local_size};
  if (config.distributed.nproc_per_node && wanted != r.local_size)
    throw UserError(Exit::config, str("distributed.nproc_per_node is ", wanted, " and ", r.local_size,
                                      " ranks were started on this machine"));
  if (r.size == 1) return r;
  refuse_what_ranks_lack(config.zero_optimization);
  r.master = {started->master.empty() ? config.distributed.master_addr : started->master,
              master_port(config.distributed)};
  r.token = variable(kTokenVariable) + started->job;
  r.config = hash_of(config);
  if (!variable(kListenerVariable).empty()) r.listener = number_in(kListenerVariable, -1, 1 << 16);
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
                    .token = r.token,
                    .config = r.config,
                    .seconds = seconds});
  mesh.give_up = end_process;
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
