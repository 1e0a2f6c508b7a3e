// The default number of threads of the CPU backend.
#pragma once
#include <string>
#include <string_view>

namespace ft::cpu {

// Number of physical cores that this process may use: cores that it is bound to, with one thread per core (a
// second one would only compete for the same multipliers), and no more than a container's quota of processor
// time.
int usable_cores();

// The processor's name as the kernel reports it; "unknown processor" if it reports none.
std::string processor_name();

// Number of cores in a cgroup's cpu.max ("quota period" in microseconds, or "max period"), rounded up; 0: no
// limit.
int quota_cores(std::string_view cpu_max);

// Binds this process to its share of these cores, as the index-th of `of` processes that do so. Called before
// any thread is started, because the number of threads depends on it.
void take_share_of_cores(int index, int of);

}  // namespace ft::cpu
