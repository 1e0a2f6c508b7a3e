// Confines this process, for programs that read untrusted files and answer untrusted clients: Landlock limits
// the files that it can open, a seccomp filter the system calls. Neither can be undone, and both hold for the
// threads and processes that it starts. Linux on x86-64, since 5.13 for files.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace ft {

// Returns the reason why this kernel cannot confine a process; empty: it can.
std::string reason_against_confining();

// Limits this thread, and the threads that it starts later, to reading these files, and the files below these
// folders. `with_links`: also the files to which links in a folder lead, wherever these are; not the folders.
// No program can be run. Skips paths that do not exist. Call it before other threads exist. Throws UserError
// (config) if the kernel refuses.
void confine_files(const std::vector<std::string>& readable, const std::vector<std::string>& with_links);

enum class AllowedCalls : std::uint8_t {
  reading,  // start of a server: open files, make TCP sockets and listen
  serving   // afterwards: use open files and sockets, accept connections, start threads
};
// Limits all threads to the system calls of this kind; others fail with EPERM. Neither kind can start a
// process or a program, trace a process, connect to another, or send to one that has not connected. Throws
// UserError (config) if the kernel refuses.
void confine_calls(AllowedCalls calls);

}  // namespace ft
