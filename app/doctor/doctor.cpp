#include "app/doctor/doctor.h"

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/config/config.h"
#include "app/doctor/examination.h"
#include "app/doctor/patient.h"
#include "app/doctor/report.h"
#include "app/launch/hostfile.h"
#include "app/launch/launcher.h"
#include "app/launch/own_host.h"

namespace ft {
namespace {

// Returns the run's settings; empty without --config.
std::optional<RunConfig> config_of(const DoctorArgs& args) {
  if (!args.config.empty()) return load_config(args.config, args.overrides);
  if (!args.overrides.empty()) throw UserError(Exit::config, "ft doctor: settings need --config FILE");
  return std::nullopt;
}

Folders folders_of(const std::optional<RunConfig>& config) {
  if (!config) return {.output = ".", .offload = {}};
  Folders f{.output = config->training.output_dir, .offload = {}};
  const ZeroConfig& z = config->zero_optimization;
  for (const auto& path : {z.offload_param.nvme_path, z.offload_optimizer.nvme_path})
    if (path && (f.offload.empty() || f.offload[0] != *path)) f.offload.push_back(*path);
  return f;
}

// Describes how a run protects what its ranks send.
Finding encryption_of(const RunConfig& config, bool several_machines) {
  const DistributedConfig& d = config.distributed;
  Finding f{.topic = "run", .what = str("this run has distributed.encryption=", name_of(d.encryption))};
  if (d.encryption == Encryption::none && (several_machines || d.nnodes > 1)) {
    f.health = Health::advice;
    f.what += ": machines between the ranks can read and change what they send";
    f.todo = "on a network with others, set distributed.encryption=tls";
  }
  if (d.encryption != Encryption::none && config.on_gpu() && d.backend != Backend::tcp)
    f.what += "; it does not cover what NCCL sends between GPUs";
  return f;
}

std::vector<std::string> host_names(const DoctorArgs& args) {
  std::vector<std::string> names;
  if (args.hostfile.empty()) {
    if (!args.include.empty() || !args.exclude.empty())
      throw UserError(Exit::config, "ft doctor: --include and --exclude need --hostfile");
    return {"localhost"};
  }
  for (const Host& h : choose_hosts(read_hostfile(args.hostfile), args.include, args.exclude))
    names.push_back(h.name);
  return names;
}

std::vector<std::unique_ptr<Patient>> patients(const std::vector<std::string>& hosts, const DoctorArgs& args,
                                               const SignalQueue& signals) {
  std::vector<std::unique_ptr<Patient>> all;
  SshOptions ssh;
  for (const std::string& host : hosts) {
    const bool here = is_here(host);
    if (!here && ssh.program.empty()) ssh = ssh_options(args.ssh_port);
    all.push_back(here ? std::make_unique<Patient>(host)
                       : std::make_unique<Patient>(std::make_unique<SshNode>(host, ssh, signals)));
  }
  return all;
}

// Waits until every machine has answered or failed. Returns false if a signal came.
bool wait_for(std::vector<std::unique_ptr<Patient>>& all, const SignalQueue& signals, Screen& screen,
              const std::string& what) {
  Working working(screen, what);
  for (;;) {
    std::vector<pollfd> fds{{signals.fd(), POLLIN, 0}};
    std::int64_t answered = 0;
    for (const auto& p : all) {
      p->add_to(fds);
      answered += p->answered();
    }
    working(answered, static_cast<std::int64_t>(all.size()));
    if (answered == static_cast<std::int64_t>(all.size())) return true;
    ::poll(fds.data(), fds.size(), 200);
    for (int s = signals.next(); s != 0; s = signals.next())
      if (s != SIGCHLD) return false;
    for (const auto& p : all) p->advance();
  }
}

}  // namespace

Exit doctor(const DoctorArgs& args) {
  const std::optional<RunConfig> config = config_of(args);
  const Folders folders = folders_of(config);
  const std::vector<std::string> hosts = host_names(args);
  const SignalQueue signals;
  Screen progress(Screen::standard_error(args.json ? ProgressStyle::none : ProgressStyle::by_terminal));
  auto all = patients(hosts, args, signals);
  for (const auto& p : all) p->look(hosts, folders);
  if (!wait_for(all, signals, progress, "looking")) return Exit{128 + SIGINT};
  if (all.size() > 1) {
    std::vector<Address> places;
    for (const auto& p : all) places.push_back({p->host(), p->port()});
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::vector<Address> others = places;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
      all[i]->reach(others);
    }
    if (!wait_for(all, signals, progress, "connecting")) return Exit{128 + SIGINT};
  }
  std::vector<Examined> results;
  for (const auto& p : all) results.push_back(p->result());
  if (config) results[0].findings.push_back(encryption_of(*config, all.size() > 1));
  if (args.json) {
    std::cout << json_text(doctor_json(results)) << "\n";
  } else {
    Screen screen(Screen::standard_output());
    show_doctor(screen, results);
  }
  return exit_of(results);
}

}  // namespace ft
