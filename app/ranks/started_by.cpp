#include "app/ranks/started_by.h"

#include <charconv>

#include "engine/core/environment.h"
#include "engine/core/error.h"

namespace ft {
namespace {

constexpr int kMost = 1 << 16;

struct Names {  // names of a launcher's variables
  const char *by, *rank, *size, *local_rank, *local_size, *job;
};
constexpr Names kLaunchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID"},
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "", "SLURM_JOB_ID"},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE"},
    {"mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", ""},
};

// Reads a number at the beginning of `text` and removes it from `text`; -1: there is none.
int take_number(std::string_view& text) {
  int value = -1;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc()) return -1;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

Started read(const Names& n) {
  Started s{.by = n.by,
            .rank = number_in(n.rank, 0, kMost),
            .size = number_in(n.size, 1, kMost),
            .master = variable("MASTER_ADDR"),
            .job = variable(n.job)};
  s.local_rank = number_in(n.local_rank, s.rank, kMost);
  s.local_size = number_in(n.local_size, s.size, kMost);
  if (s.by == "srun") {
    s.local_size = tasks_on_node(variable("SLURM_STEP_TASKS_PER_NODE"), number_in("SLURM_NODEID", 0, kMost));
    if (s.master.empty()) s.master = first_host(variable("SLURM_STEP_NODELIST"));
    s.job += "." + variable("SLURM_STEP_ID");
  }
  // srun --gpus-per-task=1, and scripts around mpirun, show each rank only its own GPU.
  const std::string shown = variable("CUDA_VISIBLE_DEVICES");
  const bool one = s.by != kLaunchers[0].by && !shown.empty() && shown.find(',') == shown.npos;
  s.gpu = one ? 0 : s.local_rank;
  if (s.rank >= s.size || s.local_rank >= s.local_size || s.local_size > s.size)
    throw UserError(Exit::config,
                    str(n.rank, " ", s.rank, " of ", n.size, " ", s.size, ", rank ", s.local_rank, " of ",
                        s.local_size, " on this machine: there is no such rank"));
  return s;
}

}  // namespace

int number_in(const char* name, int fallback, int most) {
  const std::string text = variable(name);
  if (text.empty()) return fallback;
  int value = -1;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size() || value < 0 || value > most)
    throw UserError(Exit::config, str(name, " in the environment is \"", printable(text),
                                      "\"; it must be an integer from 0 to ", most));
  return value;
}

std::string first_host(std::string_view nodes) {
  const std::size_t bracket = nodes.find('['), comma = nodes.find(',');
  if (bracket == nodes.npos || comma < bracket) return std::string(nodes.substr(0, comma));
  const std::string_view inside = nodes.substr(bracket + 1);
  std::string name(nodes.substr(0, bracket));
  name += inside.substr(0, inside.find_first_of("-,]"));
  if (const auto close = inside.find(']'); close != inside.npos) {
    const std::string_view rest = inside.substr(close + 1);
    name += rest.substr(0, rest.find(','));  // node[1-4]-ib: the part after the bracket
  }
  return name;
}

int tasks_on_node(std::string_view tasks, int node) {
  while (!tasks.empty()) {
    const int here = take_number(tasks);
    int nodes = 1;
    if (tasks.starts_with("(x")) {
      tasks.remove_prefix(2);
      nodes = take_number(tasks);
      if (!tasks.starts_with(")")) return 0;
      tasks.remove_prefix(1);
    }
    if (here < 1 || nodes < 1) return 0;
    if (node < nodes) return here;
    node -= nodes;
    if (!tasks.starts_with(",")) return 0;
    tasks.remove_prefix(1);
  }
  return 0;
}

std::optional<Started> started_by() {
  for (const Names& n : kLaunchers) {
    const bool rank = !variable(n.rank).empty(), size = !variable(n.size).empty();
    if (rank && size) return read(n);
    // Other launchers' variables may be set in processes that they did not start.
    if (rank != size && &n == kLaunchers)
      throw UserError(Exit::config,
                      str(rank ? n.rank : n.size, " is in the environment without ", rank ? n.size : n.rank));
  }
  return std::nullopt;
}

}  // namespace ft
