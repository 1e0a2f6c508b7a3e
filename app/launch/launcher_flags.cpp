#include "app/launch/launcher_flags.h"

#include <algorithm>
#include <cstdio>

#include "engine/core/error.h"
#include "engine/core/lower_case.h"

namespace ft {
namespace {

constexpr bool kRefused = true, kNoEffect = false;
constexpr const char* kElastic =
    "the number of ranks of a run is fixed; with training.resume_from_checkpoint=auto it goes on with any "
    "other";

constexpr LauncherFlag kFlags[] = {
    {"--module", "", kNoEffect, "a rank runs ft, not a Python module"},
    {"--no_python", "", kNoEffect, "a rank runs ft, not Python"},
    {"--no_local_rank", "", kNoEffect, "a rank gets its number from the environment"},
    {"--no_ssh_check", "", kNoEffect,
     "there is no separate check: ft launch names a machine that ssh cannot reach"},
    {"--force_multi", "", kNoEffect,
     "every other machine of the hostfile is reached over ssh, also a single one"},
    {"--save_pid", "", kNoEffect,
     "the process that you start is the launcher; a signal to it reaches every rank"},
    {"--bind_cores_to_rank", "", kNoEffect, "always so: each rank has cores of its own"},
    {"--venv_script", "FILE", kNoEffect, "ft needs no Python environment"},
    {"--log_level", "LEVEL", kNoEffect, "ft launch prints only errors; logging.log_level is for the ranks"},
    {"-q,--quiet", "", kNoEffect, "ft launch prints only errors; logging.log_level is for the ranks"},
    {"--launcher_args", "ARGS", kRefused, "options of ssh belong in ~/.ssh/config"},
    {"--autotuning", "tune|run", kRefused, "type: ft tune --config run.json"},
    {"--bind_core_list", "LIST", kRefused, "type: taskset -c LIST ft launch ...; ranks share these cores"},
    {"--elastic_training", "", kRefused, kElastic},
    {"--min_elastic_nodes", "N", kRefused, kElastic},
    {"--max_elastic_nodes", "N", kRefused, kElastic},
};

}  // namespace

std::span<const LauncherFlag> launcher_flags() { return kFlags; }

const LauncherFlag* find_launcher_flag(const std::string& name) {
  const std::string wanted = "," + name + ",";
  const auto at = std::find_if(std::begin(kFlags), std::end(kFlags), [&](const LauncherFlag& f) {
    return ("," + std::string(f.names) + ",").find(wanted) != std::string::npos;
  });
  return at == std::end(kFlags) ? nullptr : at;
}

void heed_launcher_flags(const std::vector<std::string>& typed) {
  for (const std::string& name : typed) {
    const LauncherFlag* flag = find_launcher_flag(name);
    require(flag, "a flag of the table");
    if (flag->refused) throw UserError(Exit::config, str("ft launch: ", name, ": ", flag->why));
    std::fprintf(stderr, "ft launch: %s has no effect: %s\n", name.c_str(), flag->why);
  }
}

void check_launcher(const std::string& launcher, int machines) {
  const auto refuse = [&](const std::string& what) {
    throw UserError(Exit::config, str("ft launch: --launcher ", printable(launcher), ": ", what));
  };
  const std::string name = lower_case(launcher);
  const bool srun = name == "slurm", ssh = name.empty() || name == "pdsh";
  const bool mpi = name == "openmpi" || name == "mpich" || name == "impi" || name == "mvapich";
  if (!srun && !ssh && !mpi) refuse("there are pdsh, openmpi, mvapich, mpich, impi and slurm");
  if (!name.empty() && machines == 1)
    std::fprintf(stderr, "ft launch: --launcher has no effect: it is for several machines of a hostfile\n");
  if (ssh || machines == 1) return;
  if (srun) refuse("start the ranks with it, without ft launch: srun --ntasks-per-node=N ft train ...");
  refuse(str("start the ranks with it, without ft launch: ", name == "openmpi" ? "mpirun" : "mpiexec",
             " -n N ft train ..., or leave it out: ft launch uses ssh"));
}

}  // namespace ft
