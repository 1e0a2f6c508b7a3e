// Finds the launcher that started this process as one of several ranks, and the process's rank: ft launch and
// torchrun, srun, OpenMPI's mpirun, mpiexec of MPICH and Intel MPI. Only this file reads launchers'
// variables.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace ft {

struct Started {
  std::string by;  // torchrun, srun, ... for messages
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;  // on this machine
  int gpu = 0;                         // index among the GPUs that this process sees
  std::string master;                  // a host; empty: the launcher does not tell
  std::string job;                     // differs between jobs; empty: the launcher does not tell
};

// Returns this process's place; nothing if no launcher started it. MASTER_ADDR names the master for every
// launcher. A batch script of SLURM is no rank, only srun's processes are. Throws UserError (config) if
// variables contradict each other.
std::optional<Started> started_by();

// Returns a variable's value, a number from 0 to `most`, or `fallback` if it is not set. Throws UserError
// (config) for another value.
int number_in(const char* name, int fallback, int most);

// Returns the first host of SLURM's "node[007-9,12],login": node007.
std::string first_host(std::string_view nodes);
// Returns the tasks that SLURM's "2(x3),1" gives to the node of that index; 0: the text has another form.
int tasks_on_node(std::string_view tasks, int node);

}  // namespace ft
