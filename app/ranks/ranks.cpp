#include "app/ranks/ranks.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "app/config/together.h"
#include "app/ranks/grid.h"
#include "app/ranks/offload.h"
#include "app/ranks/started_by.h"

#include "engine/core/environment.h"
#include "engine/cpu/cores.h"
#include "engine/cpu/cpu_ops.h"
#include "engine/cuda/nccl/nccl_communicator.h"
#include "engine/files/file.h"
#include "engine/files/hash.h"
#include "engine/ranks/local.h"
#include "engine/ranks/mesh_communicator.h"
#include "engine/ranks/overlapped_communicator.h"
#include "engine/ranks/staged_communicator.h"
#include "engine/ranks/together.h"

namespace ft {
namespace {

constexpr const char* kNcclIsNotCovered =
    "distributed.encryption covers what the hosts send, and not the tensors that NCCL sends between GPUs; "
    "distributed.backend=tcp sends all through the hosts";

[[noreturn]] void refuse_zero(const std::string& setting, const std::string& why) {
  throw UserError(Exit::config, str("zero_optimization.", setting, why));
}

// Refuses settings that ft ignores, if their values were changed.
void refuse_what_ranks_lack(const ZeroConfig& z) {
  const ZeroConfig usual;
  const auto unusual = [](bool changed, const char* setting, const char* why) {
    if (changed) refuse_zero(setting, str(": ", why, "; leave it out"));
  };
  unusual(!z.reduce_scatter, "reduce_scatter=false", "ft always uses reduce-scatter");
  unusual(z.allgather_bucket_size != usual.allgather_bucket_size, "allgather_bucket_size",
          "ft gathers in place, without a bucket");
  unusual(z.stage3_max_reuse_distance != usual.stage3_max_reuse_distance, "stage3_max_reuse_distance",
          "ft releases a unit after each use");
}

// Returns the port of rank 0. torchrun's own store may listen at MASTER_PORT; rank 0 then takes the next
// port.
int master_port(const DistributedConfig& config) {
  const int port = number_in("MASTER_PORT", static_cast<int>(config.master_port), 65535);
  return variable("TORCHELASTIC_USE_AGENT_STORE") == "True" ? port + 1 : port;
}

// Prints lines on stderr. Any thread may call it, at any time.
void say(const std::string& text) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = printable(text.substr(begin, end - begin), 2000) + "\n";
    (void)!::write(STDERR_FILENO, line.data(), line.size());
    begin = end + 1;
  }
}

// Ends a rank that cannot end by itself. Leaves no partial files, because files appear complete or not at
// all.
void end_process(Exit exit, const std::string& text) {
  say(text);
  ::_exit(static_cast<int>(exit));
}

// Returns a hash of the settings that all ranks must agree on: all settings except the transport, the
// timeout, and the machines and processes of the run.
std::string hash_of(RunConfig config) {
  const DistributedConfig& d = config.distributed;  // keeps the settings that affect results
  config.distributed = {.communication_data_type = d.communication_data_type,
                        .prescale_gradients = d.prescale_gradients,
                        .gradient_predivide_factor = d.gradient_predivide_factor,
                        .data_parallel_size = d.data_parallel_size,
                        .tensor_parallel_size = d.tensor_parallel_size,
                        .pipeline_parallel_size = d.pipeline_parallel_size,
                        .sequence_parallel_size = d.sequence_parallel_size,
                        .expert_parallel_size = d.expert_parallel_size,
                        .sequence_parallel_type = d.sequence_parallel_type};
  return sha256(effective_config(config));
}

// Throws UserError (config) if the token is too short to be a secret of this job's ranks. Without ft launch
// the user sets it: the job numbers of other launchers are not secret.
void require_secret(Encryption encryption, const std::string& token) {
  constexpr std::size_t kLeast = 16;  // characters, since a recorded handshake lets anybody try guesses
  if (encryption == Encryption::none || token.size() >= kLeast) return;
  throw UserError(
      Exit::config,
      str("distributed.encryption=", name_of(encryption), " needs a secret of all ranks in ", kTokenVariable,
          ", of ", kLeast, " characters or more; it ",
          token.empty() ? std::string("is not set") : str("has ", token.size()),
          "\n  ft launch makes one; with another launcher set it to what openssl rand -hex 16 prints, "
          "the same for all ranks"));
}

// Returns the reason not to use NCCL; empty: all ranks have it. Throws UserError (hardware) if a rank lacks
// it and the configuration asks for it.
std::string without_nccl(Communicator& hosts, const RunConfig& config) {
  const std::vector<std::uint8_t> there = asked(hosts, nccl_version().has_value());
  const auto none = std::find(there.begin(), there.end(), 0);
  if (none == there.end()) return "";
  const std::string lacks = str("rank ", none - there.begin(), " has no NCCL (2.18 or later)");
  if (config.distributed.backend == Backend::nccl)
    throw UserError(Exit::hardware, str("distributed.backend: ", lacks,
                                        "; install NVIDIA's libnccl.so.2, or say where it is with "
                                        "ft --cuda-libs DIR, or set it to tcp"));
  return str(": ", lacks);
}

}  // namespace

int configured_ranks(const DistributedConfig& config) {
  return static_cast<int>(config.nproc_per_node.value_or(1));
}

int all_ranks(const DistributedConfig& config) {
  return configured_ranks(config) * static_cast<int>(config.nnodes);
}

GridShape grid_of(const DistributedConfig& config) { return grid_shape(config, all_ranks(config)); }

ZeroOptions zero_options(const RunConfig& config, int ranks) {
  const ZeroConfig& z = config.zero_optimization;
  if (ranks > 1) refuse_what_ranks_lack(z);
  check_together_on(config, ranks);
  const std::int64_t group = ranks > 1 ? z.mics_shard_size : -1;
  if (group == 0 || group > ranks || (group > 0 && ranks % group != 0))
    refuse_zero("mics_shard_size",
                str(" is ", group, " and there are ", ranks, " ranks; it must divide their number"));
  if (ranks > 1 && ranks % z.zero_hpz_partition_size != 0)
    refuse_zero("zero_hpz_partition_size", str(" is ", z.zero_hpz_partition_size, " and there are ", ranks,
                                               " ranks; it must divide their number"));
  const auto elements = [](double n) { return static_cast<std::int64_t>(n); };
  ZeroOptions options{.stage = ZeroStage::of(ranks > 1 ? static_cast<int>(z.stage) : 0),
                      .group = static_cast<int>(std::max<std::int64_t>(0, group)),
                      .persist = elements(z.stage3_param_persistence_threshold),
                      .prefetch = elements(z.stage3_prefetch_bucket_size),
                      .max_live = elements(z.stage3_max_live_parameters),
                      .overlap = z.overlap_comm,
                      .coded_values = ranks > 1 && z.zero_quantized_weights,
                      .coded_grads = ranks > 1 && z.zero_quantized_gradients,
                      .near = ranks > 1 ? static_cast<int>(z.zero_hpz_partition_size) : 0};
  set_homes(options, config);
  return options;
}

Wire wire_of(const DistributedConfig& d, int ranks) {
  if (d.communication_data_type == GradientType::fp32) return {};
  const double scale = d.prescale_gradients ? 1 : ranks / d.gradient_predivide_factor;
  return {.dtype = d.communication_data_type == GradientType::bf16 ? DType::bf16 : DType::f16,
          .scale = static_cast<float>(scale)};
}

int ranks_here() {
  const auto started = started_by();
  return started ? started->size : 0;
}

Ranks find_ranks(const RunConfig& config) {
  const int wanted = configured_ranks(config.distributed);
  const auto started = started_by();
  if (!started) {
    if (wanted > 1 || config.distributed.nnodes > 1)
      throw UserError(Exit::config,
                      str(wanted > 1 ? "distributed.nproc_per_node is " : "distributed.nnodes is ",
                          wanted > 1 ? wanted : config.distributed.nnodes,
                          " and this is one process; start it with ft launch train ..."));
    grid_shape(config.distributed, 1);
    return {};
  }
  Ranks r{.rank = started->rank,
          .size = started->size,
          .local_rank = started->local_rank,
          .local_size = started->local_size,
          .gpu = started->gpu};
  if (config.distributed.nproc_per_node && wanted != r.local_size)
    throw UserError(Exit::config, str("distributed.nproc_per_node is ", wanted, " and ", r.local_size,
                                      " ranks were started on this machine"));
  if (config.distributed.nnodes > 1 && config.distributed.nnodes * r.local_size != r.size)
    throw UserError(Exit::config, str("distributed.nnodes is ", config.distributed.nnodes, " and there are ",
                                      r.size, " ranks, ", r.local_size, " of them on this machine"));
  r.grid = grid_shape(config.distributed, r.size);
  if (r.size == 1) return r;
  r.master = {started->master.empty() ? config.distributed.master_addr : started->master,
              master_port(config.distributed)};
  require_secret(config.distributed.encryption, variable(kTokenVariable));
  r.token = variable(kTokenVariable) + started->job;
  r.config = hash_of(config);
  if (!variable(kListenerVariable).empty()) r.listener = number_in(kListenerVariable, -1, 1 << 16);
  cpu::take_share_of_cores(r.local_rank, r.local_size);
  return r;
}

std::unique_ptr<Communicator> make_communicator(const Ranks& r, Ops& ops, const RunConfig& config,
                                                CommunicationObserver* trace, CommunicationObserver* log) {
  if (r.size == 1) return std::make_unique<LocalCommunicator>(ops);
  if (config.distributed.backend == Backend::nccl && ops.device().kind == Device::Kind::cpu)
    throw UserError(Exit::config, "distributed.backend: nccl is for GPUs; set device=cuda, or leave it out");
  const auto seconds = static_cast<double>(config.distributed.timeout_s);
  const ZeroConfig& zero = config.zero_optimization;
  Mesh mesh = meet({.rank = r.rank,
                    .size = r.size,
                    .master = r.master,
                    .listener = Socket(r.root() ? r.listener : -1),
                    .token = r.token,
                    .config = r.config,
                    .seconds = seconds,
                    .encryption = config.distributed.encryption});
  mesh.give_up = end_process;
  mesh.notice = say;
  cpu::CpuOps host(1);
  const auto bucket = static_cast<std::int64_t>(zero.reduce_bucket_size);
  auto hosts = std::make_unique<MeshCommunicator>(host, std::move(mesh), seconds, bucket,
                                                  wire_of(config.distributed, r.grid.zero()));
  std::unique_ptr<Communicator> comm;
  const bool on_cpus = ops.device().kind == Device::Kind::cpu;
  const auto logged = [&](std::unique_ptr<Communicator> inner) -> std::unique_ptr<Communicator> {
    if (!log) return inner;
    const std::function<void()> settle = on_cpus ? [] {} : std::function<void()>([&] { ops.synchronize(); });
    return std::make_unique<TraceCommunicator>(std::move(inner), *log, settle);
  };
  if (on_cpus) {
    comm = std::move(hosts);
  } else {
    const bool tcp = config.distributed.backend == Backend::tcp;
    const std::string why = tcp ? "" : without_nccl(*hosts, config);
    if (!tcp && why.empty()) {
      if (r.root() && config.distributed.encryption != Encryption::none) say(kNcclIsNotCovered);
      return logged(make_nccl_communicator(ops, std::move(hosts), seconds,
                                           wire_of(config.distributed, r.grid.zero()), bucket));
    }
    comm = std::make_unique<StagedCommunicator>(ops, std::move(hosts), why);
  }
  if (trace) comm = std::make_unique<TraceCommunicator>(std::move(comm), *trace);
  comm = logged(std::move(comm));
  if (!zero.overlap_comm || (log && !on_cpus)) return comm;
  return std::make_unique<OverlappedCommunicator>(std::move(comm));
}

void require_same(Communicator& comm, std::int64_t value, const std::string& what) {
  std::int64_t first = value;
  comm.broadcast(std::as_writable_bytes(std::span(&first, 1)), 0);
  if (first != value)
    throw UserError(Exit::mismatch, str(what, " is ", value, " on rank ", comm.rank(), " and ", first,
                                        " on rank 0; all ranks need the same files"));
}

void require_one_folder(Communicator& comm, const std::string& folder) {
  if (comm.size() == 1) return;
  // A new name, which no earlier run can have left.
  std::string name = join_path(folder, "seen-by-all-ranks." + random_tag());
  together(comm, "write to the output folder", [&] {
    if (comm.rank() == 0) write_file(name, "");
  });
  name = shared(comm, name);
  together(comm, "see the output folder of rank 0", [&] {
    if (!path_exists(name))
      throw UserError(Exit::config, str("training.output_dir: ", folder, " of rank ", comm.rank(),
                                        " is not rank 0's; all ranks write checkpoints, to a folder that all "
                                        "machines share"));
  });
  std::error_code none;
  if (comm.rank() == 0) std::filesystem::remove(name, none);
}

}  // namespace ft
