#include "app/launch/resources.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <sstream>

#include "engine/core/environment.h"
#include "engine/core/error.h"

namespace ft {
namespace {

constexpr const char* kHere = "localhost";
constexpr const char* kShown = "CUDA_VISIBLE_DEVICES";

[[noreturn]] void refuse_choice(const std::string& what) {
  throw UserError(Exit::config, "ft launch: " + what);
}

std::vector<int> gpus_shown() {
  const std::string shown = variable(kShown);
  return gpus_here(shown.empty() ? std::nullopt : std::optional(shown));
}

// Refuses a host other than localhost: without a hostfile there is only this machine.
void check_only_here(const std::string& option, const std::string& text) {
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, '@');)
    if (const std::string name = part.substr(0, part.find(':')); name != kHere)
      refuse_choice(str(option, ": without --hostfile there is only ", kHere, ", no ", printable(name)));
}

// Chooses the slots of this machine, without a hostfile. Accepts any slot number in --include, because on
// CPUs a slot is only a rank.
std::vector<Host> choose_here(const LaunchArgs& args, int each, bool on_gpu) {
  check_only_here("--include", args.include);
  check_only_here("--exclude", args.exclude);
  const bool numbered = args.include.find(':') != std::string::npos;
  const bool filtered = !args.include.empty() || !args.exclude.empty();
  std::vector<int> slots;
  if (numbered)
    slots = first_slots(kMostSlots + 1);
  else if (each > 0 && args.exclude.empty())
    slots = first_slots(each);
  else if (on_gpu)
    slots = gpus_shown();
  else if (!args.exclude.empty())
    refuse_choice("--exclude needs --hostfile, or GPUs to count; on CPUs give -n N");
  if (slots.empty())
    refuse_choice("how many ranks? Give -n N, --hostfile, or set distributed.nproc_per_node");
  std::vector<Host> hosts = choose_hosts({{kHere, slots}}, args.include, args.exclude);
  if (filtered && on_gpu && !variable(kShown).empty() && numbered)
    std::fprintf(stderr, "ft launch: --include selects the GPUs, instead of %s=%s\n", kShown,
                 printable(variable(kShown)).c_str());
  return hosts;
}

// Checks that the selection of --include or --exclude agrees with --num_nodes and -n.
void check_selected(const std::vector<Host>& hosts, int each, int nodes) {
  const int there = static_cast<int>(hosts.size());
  if (nodes > 0 && nodes != there)
    refuse_choice(str("--include and --exclude select ", there, there == 1 ? " machine" : " machines",
                      ", but --num_nodes is ", nodes, "; leave one of them out"));
  for (const Host& h : hosts)
    if (each > 0 && each != static_cast<int>(h.slots.size()))
      refuse_choice(str("--include and --exclude select ", h.slots.size(),
                        h.slots.size() == 1 ? " rank" : " ranks", " on ", h.name,
                        ", but -n or distributed.nproc_per_node is ", each, "; leave one of them out"));
}

// Keeps the first `nodes` machines, with `each` ranks on each.
void cut(std::vector<Host>& hosts, const std::string& file, int each, int nodes) {
  const int there = static_cast<int>(hosts.size());
  if (nodes > there) refuse_choice(str("--num_nodes is ", nodes, " and ", file, " has ", there, " hosts"));
  if (nodes > 0) hosts.resize(static_cast<std::size_t>(nodes));
  for (Host& h : hosts) {
    if (each > static_cast<int>(h.slots.size()))
      refuse_choice(
          str(h.name, " has ", h.slots.size(), " slots in ", file, ", but ", each, " are asked for"));
    if (each > 0) h.slots.resize(static_cast<std::size_t>(each));
  }
}

}  // namespace

std::vector<int> gpus_here(const std::optional<std::string>& shown) {
  std::vector<int> all;
  if (!shown) {
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", none))
      if (entry.is_directory()) all.push_back(static_cast<int>(all.size()));
    return all;
  }
  std::istringstream words(*shown);
  for (std::string word; std::getline(words, word, ',');) {
    if (word.empty() || word.size() > 4 || word.find_first_not_of("0123456789") != word.npos)
      refuse_choice(str(kShown, "=", printable(*shown), " does not number the GPUs; give -n N"));
    all.push_back(std::stoi(word));
  }
  return all;
}

std::vector<Host> choose_resources(const LaunchArgs& args, int each, int nodes, bool on_gpu) {
  const bool filtered = !args.include.empty() || !args.exclude.empty();
  if (args.hostfile.empty()) {
    std::vector<Host> hosts = choose_here(args, each, on_gpu);
    if (filtered) check_selected(hosts, each, 0);
    return {static_cast<std::size_t>(std::max(1, nodes)), hosts[0]};
  }
  std::vector<Host> hosts = choose_hosts(read_hostfile(args.hostfile), args.include, args.exclude);
  if (filtered)
    check_selected(hosts, each, nodes);
  else
    cut(hosts, args.hostfile, each, nodes);
  return hosts;
}

}  // namespace ft
