// Starts a child process that cannot outlive this process.
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
  int pid = 0;    // also its process group; 0: it has ended
  Socket output;  // its stdout; stderr too, unless there are `errors`
  Socket errors;  // with Start::own_errors: its stderr
  Socket input;   // with Start::own_input: a socket to its stdin
};

struct Start {
  std::string program;                                           // found in PATH; empty: this program
  std::vector<std::string> arguments;                            // without the program's name
  std::vector<std::pair<std::string, std::string>> environment;  // replaces or adds variables
  int inherited = -1;                          // a descriptor that the child keeps; -1: none
  bool own_input = false, own_errors = false;  // else stdin is empty and stderr goes to stdout
  std::optional<TerminalSize> terminal = {};   // with own_errors: makes stderr a terminal of this size
  sigset_t signals{};                          // signal mask of the child
};

// Starts the program directly, without a shell. This side's descriptors do not block. Throws UserError
// (config) if the program is not in PATH, (hardware) if the system cannot start it.
Child start_child(const Start&);

// Returns the path of this program.
std::string this_program();

// Reads SIGCHLD and the signals that end a program from a descriptor, for a program that passes them on to
// its children. The children get the old mask back (Start::signals).
class SignalQueue {
 public:
  SignalQueue();
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;
  ~SignalQueue();
  int fd() const { return fd_.fd(); }
  const sigset_t& before() const { return before_; }
  // Returns the number of a signal that came; 0: none. Returns SIGTERM for SIGHUP (the terminal is closed)
  // and, once, for SIGPIPE (the output's reader is gone).
  int next() const;

 private:
  sigset_t mask_{}, before_{};
  mutable bool unread_ = false;  // the output's reader is gone
  Socket fd_;
};

}  // namespace ft
