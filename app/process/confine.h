// Confines this process, for programs that read files of strangers and answer strangers: Landlock limits the
// files that it can open, a seccomp filter the system calls. Neither can be undone, and both hold for the
// threads and processes that it starts. Linux on x86-64, since 5.13 for files.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace ft {

// Returns the reason why this kernel cannot confine a process; empty: it can.
std::string reason_against_confining();

// From now on, this thread and those that it starts can open files for reading only, and only these and what
// is below these folders; of `with_links` also the targets of links in a folder. It can run no program. Paths
// that do not exist are left out. Call it before other threads exist. Throws UserError (config) if the kernel
// refuses.
void confine_files(const std::vector<std::string>& readable, const std::vector<std::string>& with_links);

enum class AllowedCalls : std::uint8_t {
  reading,  // start of a server: open files, make internet sockets and listen
  serving   // afterwards: use what is open, accept connections, start threads
};
// From now on, all threads can use only the system calls of this kind; others fail with EPERM. Neither kind
// can start a process or a program, connect to another, or trace one. Throws UserError (config) if the kernel
// refuses.
void confine_calls(AllowedCalls calls);

}  // namespace ft
