// Which launcher started this process as one rank of many, and as which: ft launch and torchrun, srun, mpirun
// of OpenMPI, mpiexec of MPICH and Intel MPI. Launchers' variables are read only here.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace ft {

struct Started {
  std::string by;  // torchrun, srun, ... for messages
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;  // on this machine
  int gpu = 0;                         // of those that this process sees
  std::string master;                  // a host; empty: the launcher does not say
  std::string job;                     // differs between jobs; empty: the launcher does not say
};

// MASTER_ADDR names the master whoever started the rank. UserError(Exit::config) when variables contradict
// each other; nothing when this process is alone. A batch script of SLURM is: only srun makes ranks.
std::optional<Started> started_by();

// A variable that is a number from 0 to `most`. UserError(Exit::config) when it is something else.
int number_in(const char* name, int fallback, int most);

// The first host of SLURM's "node[007-9,12],login", which is node007.
std::string first_host(std::string_view nodes);
// How many tasks SLURM's "2(x3),1" gives to the node of that index; 0: it is not so written.
int tasks_on_node(std::string_view tasks, int node);

}  // namespace ft
