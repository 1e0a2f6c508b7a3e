// A process that runs this program again and does not outlive the one that started it.
#pragma once
#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "engine/dist/socket.h"

namespace ft {

struct Child {
  int pid = 0;    // also of its process group; 0: has ended
  Socket output;  // what it writes to stdout and stderr
};

struct Start {
  std::vector<std::string> arguments;                            // of ft
  std::vector<std::pair<std::string, std::string>> environment;  // instead of and beside this process's
  int inherited = -1;                                            // a descriptor that it keeps; -1: none
  sigset_t signals{};                                            // its mask
};

// Nothing comes between: no shell, the very file that is running, stdin empty.
Child start_child(const Start&);

// SIGCHLD, and the signals that end a program, come to a descriptor instead of interrupting, for a program
// that passes them on to its children; those get the old mask back (Start::signals).
class SignalQueue {
 public:
  SignalQueue();
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;
  ~SignalQueue();
  int fd() const { return fd_.fd(); }
  const sigset_t& before() const { return before_; }
  int next() const;  // the number of one that came; 0: none

 private:
  sigset_t mask_{}, before_{};
  Socket fd_;
};

}  // namespace ft
