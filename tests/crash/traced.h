// Follows a command, its threads and its children under ptrace, and stops each before the system calls of a
// list. x86-64 only.
#pragma once
#include <sys/types.h>
#include <sys/user.h>

#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace ft::test {

using Registers = user_regs_struct;
using Argument = unsigned long long;

inline constexpr int kNotTraced = 96;  // exit code if this system does not allow tracing

// Returns argument i of a system call, from 0.
Argument argument(const Registers&, int i);
// Returns the text at an address of a thread's process; up to 4095 bytes.
std::string text_at(pid_t thread, Argument address);
// Returns the name of an open file.
std::string file_of(pid_t thread, Argument descriptor);

class Traced {
 public:
  virtual ~Traced() = default;
  // Runs `words` in `folder` to the end of all its processes, with stdout and stderr in files of these names
  // there. Returns the exit code, or 128 plus the number of the signal that ended the command.
  int run(const std::vector<std::string>& words, const std::filesystem::path& folder,
          std::span<const long> calls);

 protected:
  // Called when a thread has stopped before a call of the list. The implementation continues it.
  virtual void before_call(pid_t thread, Registers&) = 0;
  // Called when a thread continued with stop_after_call() has stopped again.
  virtual void after_call(pid_t) {}

  static void go_on(pid_t thread, int signal = 0);
  static void stop_after_call(pid_t thread);
  // Lets the call run while the other threads stay before their calls. Returns its result; the thread stays
  // stopped. Empty: the thread has ended.
  std::optional<long long> finished_call(pid_t thread);
  void kill_all();
  pid_t root() const { return root_; }

 private:
  void stopped(pid_t thread, int signal, int event);
  void ended(pid_t thread, int status);

  pid_t root_ = 0;
  int exit_ = 0;
  std::set<pid_t> threads_;
};

}  // namespace ft::test
