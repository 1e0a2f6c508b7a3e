#include "app/launch/launch.h"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "app/launch/launcher.h"
#include "app/ranks/ranks.h"
#include "engine/core/environment.h"
#include "engine/dist/handshake.h"

namespace ft {
namespace {

[[noreturn]] void refuse(const std::string& what) { throw UserError(Exit::config, "ft launch: " + what); }

// What a machine runs; 0: not said.
int ranks_each(const LaunchArgs& args, const DistributedConfig& config) {
  const int configured = static_cast<int>(config.nproc_per_node.value_or(0));
  if (args.ranks > 0 && configured > 0 && args.ranks != configured)
    refuse(
        str("-n is ", args.ranks, " and distributed.nproc_per_node is ", configured, "; give one of them"));
  return args.ranks > 0 ? args.ranks : configured;
}

int machines(const LaunchArgs& args, const DistributedConfig& config) {
  const int configured = static_cast<int>(config.nnodes);
  if (args.nodes > 0 && configured > 1 && args.nodes != configured)
    refuse(
        str("--num_nodes is ", args.nodes, " and distributed.nnodes is ", configured, "; give one of them"));
  return args.nodes > 0 ? args.nodes : configured > 1 ? configured : 0;
}

std::vector<int> slots(int n) {
  std::vector<int> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::vector<Host> hosts_of(const LaunchArgs& args, int nodes, int each) {
  const bool filtered = !args.include.empty() || !args.exclude.empty();
  if (filtered && (nodes > 0 || each > 0))
    refuse(
        "--include and --exclude select the ranks; leave out -n and --num_nodes, and those settings in the "
        "configuration");
  std::vector<Host> hosts = choose_hosts(read_hostfile(args.hostfile), args.include, args.exclude);
  const int there = static_cast<int>(hosts.size());
  if (nodes > there) refuse(str("--num_nodes is ", nodes, " and ", args.hostfile, " has ", there, " hosts"));
  if (nodes > 0) hosts.resize(static_cast<std::size_t>(nodes));
  for (Host& h : hosts) {
    if (each > static_cast<int>(h.slots.size()))
      refuse(str(h.name, " has ", h.slots.size(), " slots in ", args.hostfile, ", but ", each,
                 " are asked for"));
    if (each > 0) h.slots.resize(static_cast<std::size_t>(each));
  }
  return hosts;
}

// One of several ft launch that somebody starts, one on each machine.
void start_by_hand(Job& job, const LaunchArgs& args, const DistributedConfig& config, int nodes, int each) {
  const int node = args.node_rank >= 0 ? args.node_rank : static_cast<int>(config.node_rank);
  if (args.node_rank < 0 && config.nnodes < 2)
    refuse("several machines need --hostfile, or ft launch on each with --node_rank");
  if (node >= nodes) refuse(str("--node_rank is ", node, " of ", nodes, " machines; they count from 0"));
  if (job.master.empty()) refuse("several machines need --master_addr, where rank 0 listens");
  job.token = variable(kTokenVariable);
  if (job.token.empty())
    refuse(str("several machines need the same secret in ", kTokenVariable,
               " in the environment of each ft launch\n  openssl rand -hex 16 makes one"));
  if (job.port == 0) job.port = static_cast<int>(config.master_port);
  job.first = node * each;
  job.size = nodes * each;
}

}  // namespace

Exit launch(const LaunchArgs& args, const std::string& output_dir, const DistributedConfig& config) {
  const DistributedConfig usual;
  const int each = ranks_each(args, config), nodes = machines(args, config);
  Job job{.command = args.command,
          .master = args.master_addr,
          .port = std::max(0, args.master_port),
          .token = random_token(),
          .log_dir = args.log_dir,
          .ssh = {}};
  if (job.master.empty() && config.master_addr != usual.master_addr) job.master = config.master_addr;
  if (args.master_port < 0 && config.master_port != usual.master_port)
    job.port = static_cast<int>(config.master_port);
  if (!args.hostfile.empty()) {
    if (args.node_rank >= 0) refuse("--hostfile and --node_rank: give one of them");
    job.hosts = hosts_of(args, nodes, each);
    for (const Host& h : job.hosts) job.size += static_cast<int>(h.slots.size());
  } else {
    if (!args.include.empty() || !args.exclude.empty()) refuse("--include and --exclude need --hostfile");
    if (each == 0) refuse("how many ranks? Give -n N, --hostfile, or set distributed.nproc_per_node");
    job.hosts = {{"localhost", slots(each)}};
    job.size = each;
    if (nodes > 1 || args.node_rank >= 0) start_by_hand(job, args, config, std::max(1, nodes), each);
  }
  if (job.master.empty() && job.hosts.size() == 1) job.master = "127.0.0.1";
  if (std::any_of(job.hosts.begin(), job.hosts.end(), [](const Host& h) { return !is_here(h.name); }))
    job.ssh = ssh_options(args.ssh_port);
  if (job.log_dir.empty()) job.log_dir = (std::filesystem::path(output_dir) / "ranks").string();
  std::error_code error;
  std::filesystem::create_directories(job.log_dir, error);
  if (error) throw UserError(Exit::storage, str(job.log_dir, ": cannot make the folder: ", error.message()));
  return run_job(job);
}

}  // namespace ft
