// A process that this one starts and that does not outlive it.
#pragma once
#include <csignal>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/process/terminal.h"
#include "engine/ranks/socket.h"

namespace ft {

struct Child {
  int pid = 0;    // also of its process group; 0: has ended
  Socket output;  // what it writes to stdout; to stderr too, unless there are `errors`
  Socket errors;  // with Start::own_errors: what it writes to stderr
  Socket input;   // with Start::own_input: a socket, what it reads from stdin
};

struct Start {
  std::string program;                                           // found in PATH; empty: this very program
  std::vector<std::string> arguments;                            // without the program's name
  std::vector<std::pair<std::string, std::string>> environment;  // instead of and beside this process's
  int inherited = -1;                                            // a descriptor that it keeps; -1: none
  bool own_input = false, own_errors = false;                    // else stdin is empty, stderr is stdout
  std::optional<TerminalSize> terminal = {};                     // with own_errors: stderr is such a terminal
  sigset_t signals{};                                            // its mask
};

// Nothing comes between: no shell. Descriptors on this side do not block. UserError(Exit::config) when there
// is no such program in PATH, (Exit::hardware) when the system cannot start it.
Child start_child(const Start&);

// Path of this program.
std::string this_program();

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
  // The number of one that came; 0: none. That the terminal, or the reader of the output, is gone (SIGHUP,
  // SIGPIPE) counts as SIGTERM, once.
  int next() const;

 private:
  sigset_t mask_{}, before_{};
  mutable bool unread_ = false;  // the reader of the output is gone
  Socket fd_;
};

}  // namespace ft
