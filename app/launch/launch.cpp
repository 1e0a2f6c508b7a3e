#include "app/launch/launch.h"

#include <algorithm>
#include <filesystem>

#include "app/launch/deepspeed_env.h"
#include "app/launch/launcher.h"
#include "app/launch/launcher_flags.h"
#include "app/launch/own_host.h"
#include "app/launch/resources.h"
#include "app/ranks/ranks.h"
#include "engine/core/environment.h"
#include "engine/files/links.h"
#include "engine/files/make_folders.h"
#include "engine/ranks/handshake.h"

namespace ft {
namespace {

[[noreturn]] void refuse(const std::string& what) { throw UserError(Exit::config, "ft launch: " + what); }

// Returns the number of ranks on a machine; 0: not given.
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

// Reduces the job to this machine's part: the user starts ft launch on each of several machines.
void start_by_hand(Job& job, const LaunchArgs& args, const DistributedConfig& config) {
  const int nodes = static_cast<int>(job.hosts.size());
  const int node = args.node_rank >= 0 ? args.node_rank : static_cast<int>(config.node_rank);
  if (node >= nodes) refuse(str("--node_rank is ", node, " of ", nodes, " machines; they count from 0"));
  if (nodes == 1) {
    job.hosts[0].name = "localhost";
    return;
  }
  if (args.node_rank < 0 && config.nnodes < 2)
    refuse(args.no_ssh ? "--no_ssh needs --node_rank, the number of this machine"
                       : "several machines need --hostfile, or ft launch on each with --node_rank");
  if (job.master.empty() && !args.hostfile.empty()) job.master = job.hosts[0].name;
  if (job.master.empty()) refuse("several machines need --master_addr, where rank 0 listens");
  job.token = variable(kTokenVariable);
  if (job.token.empty())
    refuse(str("several machines need the same secret in ", kTokenVariable,
               " in the environment of each ft launch\n  openssl rand -hex 16 makes one"));
  if (job.port == 0) job.port = static_cast<int>(config.master_port);
  for (int before = 0; before < node; ++before)
    job.first += static_cast<int>(job.hosts[static_cast<std::size_t>(before)].slots.size());
  job.hosts = {job.hosts[static_cast<std::size_t>(node)]};
  job.hosts[0].name = "localhost";
}

}  // namespace

Exit launch(const LaunchArgs& args, const std::string& output_dir, const DistributedConfig& config,
            bool on_gpu) {
  const DistributedConfig usual;
  heed_launcher_flags(args.others);
  const int each = ranks_each(args, config), nodes = machines(args, config);
  Job job{.command = args.command,
          .master = args.master_addr,
          .port = std::max(0, args.master_port),
          .token = random_token(),
          .log_folder = args.log_dir.empty() ? output_dir : args.log_dir,
          .log_names = args.log_dir.empty() ? "ranks/" : "",
          .ssh = {}};
  if (job.master.empty() && config.master_addr != usual.master_addr) job.master = config.master_addr;
  if (args.master_port < 0 && config.master_port != usual.master_port)
    job.port = static_cast<int>(config.master_port);
  if (!args.hostfile.empty() && args.node_rank >= 0 && !args.no_ssh)
    refuse(
        "--hostfile and --node_rank: give one of them, or --no_ssh too, to start ft launch on each machine");
  job.hosts = choose_resources(args, each, nodes, on_gpu);
  for (const Host& h : job.hosts) job.size += static_cast<int>(h.slots.size());
  const bool by_hand = args.no_ssh || args.hostfile.empty();
  check_launcher(args.launcher, by_hand ? 1 : static_cast<int>(job.hosts.size()));
  if (job.hosts.size() > 1) job.environment = read_deepspeed_env();
  if (by_hand) start_by_hand(job, args, config);
  if (job.master.empty() && job.hosts.size() == 1) job.master = "127.0.0.1";
  if (std::any_of(job.hosts.begin(), job.hosts.end(), [](const Host& h) { return !is_here(h.name); }))
    job.ssh = ssh_options(args.ssh_port);
  make_folders(job.log_folder);  // the ranks find the run's folder there
  return run_job(job);
}

}  // namespace ft
