// The default number of threads of the CPU backend.
#pragma once
#include <string>
#include <string_view>

namespace ft::cpu {

// Physical cores that this process may use: those it is bound to, one thread per core (a second one only
// competes for the same multipliers), and no more than a container's quota of processor time.
int usable_cores();

// The processor's name as the kernel gives it; "unknown processor" where it gives none.
std::string processor_name();

// Whole cores of a cgroup's cpu.max, "quota period" in microseconds or "max period", rounded up; 0: no limit.
int quota_cores(std::string_view cpu_max);

// Binds this process to its share of those: the index-th of `of` processes that do the same. Before any
// thread is started; the number of threads follows from it.
void take_share_of_cores(int index, int of);

}  // namespace ft::cpu
