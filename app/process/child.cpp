#include "app/process/child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <utility>

#include "engine/core/environment.h"
#include "engine/core/error.h"

namespace ft {
namespace {

constexpr const char* kThisProgram = "/proc/self/exe";

// Returns this process's variables, with those in `own` replaced or added, in the form of execve.
std::vector<std::string> merged(const std::vector<std::pair<std::string, std::string>>& own) {
  std::vector<std::string> all;
  for (const auto& [name, inherited] : variables()) {
    bool replaced = false;
    for (const auto& [key, value] : own) replaced |= key == name;
    if (!replaced) all.push_back(name + "=" + inherited);
  }
  for (const auto& [key, value] : own) all.push_back(key + "=" + value);
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& t : texts) all.push_back(t.data());
  all.push_back(nullptr);
  return all;
}

struct Pipe {
  Socket read, write;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    throw UserError(Exit::hardware, str("cannot start a process: ", std::strerror(errno)));
  return {Socket(ends[0]), Socket(ends[1])};
}

// Makes a terminal. The child writes to it; the reading end is its other side.
Pipe make_terminal(const TerminalSize& size) {
  Terminal t = open_terminal(size);
  return {std::move(t.keeper), std::move(t.terminal)};
}

// Makes a socket for stdin instead of a pipe: writing to a process that has ended must not raise a signal
// (MSG_NOSIGNAL).
Pipe make_input() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw UserError(Exit::hardware, str("cannot start a process: ", std::strerror(errno)));
  return {Socket(ends[0]), Socket(ends[1])};
}

struct Streams {
  int in = -1, out = -1, err = -1;  // in -1: stdin is empty
};

// Turns the forked process into the program. Calls only functions that are safe between fork and exec.
[[noreturn]] void become(const Start& start, const Streams& s, int parent, const char* program,
                         char** arguments, char** environment) {
  // The kernel ends this process when its parent ends, for whatever reason.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(static_cast<int>(Exit::peer_lost));
  setpgid(0, 0);  // the launcher passes a terminal's Ctrl-C on, once
  dup2(s.in >= 0 ? s.in : open("/dev/null", O_RDONLY), STDIN_FILENO);
  dup2(s.out, STDOUT_FILENO);
  dup2(s.err, STDERR_FILENO);
  if (start.inherited >= 0) fcntl(start.inherited, F_SETFD, 0);
  sigprocmask(SIG_SETMASK, &start.signals, nullptr);
  execve(program, arguments, environment);
  constexpr char kFailed[] = "ft: cannot start a process\n";
  (void)!write(STDERR_FILENO, kFailed, sizeof kFailed - 1);
  _exit(127);
}

std::string in_path(const std::string& name) {
  const std::string path = variable("PATH");
  std::istringstream folders(path.empty() ? "/usr/bin:/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (const std::string file = folder + "/" + name; access(file.c_str(), X_OK) == 0) return file;
  throw UserError(Exit::config, str("there is no program ", name, " in PATH"));
}

void set_nonblocking(const Socket& s) { fcntl(s.fd(), F_SETFL, O_NONBLOCK); }

}  // namespace

std::string this_program() { return std::filesystem::read_symlink(kThisProgram).string(); }

Child start_child(const Start& start) {
  std::vector<std::string> words{start.program.empty() ? "ft" : start.program};
  std::vector<std::string> variables = merged(start.environment);
  words.insert(words.end(), start.arguments.begin(), start.arguments.end());
  const auto arguments = pointers(words), environment = pointers(variables);
  const std::string program = start.program.empty() ? kThisProgram : in_path(start.program);
  const int parent = getpid();
  Pipe out = make_pipe(), in, err;
  if (start.own_input) in = make_input();
  if (start.own_errors) err = start.terminal ? make_terminal(*start.terminal) : make_pipe();
  const int pid = fork();
  if (pid < 0) throw UserError(Exit::hardware, str("cannot start a process: ", std::strerror(errno)));
  if (pid == 0)
    become(start, {in.read.fd(), out.write.fd(), start.own_errors ? err.write.fd() : out.write.fd()}, parent,
           program.c_str(), const_cast<char**>(arguments.data()), const_cast<char**>(environment.data()));
  setpgid(pid, pid);  // the child does this too; one of them is first
  for (const Socket* s : {&out.read, &err.read, &in.write})
    if (*s) set_nonblocking(*s);
  return {pid, std::move(out.read), std::move(err.read), std::move(in.write)};
}

SignalQueue::SignalQueue() {
  sigemptyset(&mask_);
  for (const int s : {SIGCHLD, SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP, SIGPIPE}) sigaddset(&mask_, s);
  sigprocmask(SIG_BLOCK, &mask_, &before_);
  fd_ = Socket(signalfd(-1, &mask_, SFD_CLOEXEC | SFD_NONBLOCK));
}

SignalQueue::~SignalQueue() {
  while (next() != 0) continue;  // a SIGPIPE from the last output must not end the program
  sigprocmask(SIG_SETMASK, &before_, nullptr);
}

int SignalQueue::next() const {
  for (signalfd_siginfo info{}; ::read(fd_.fd(), &info, sizeof info) == sizeof info;) {
    const auto s = static_cast<int>(info.ssi_signo);
    if (s == SIGPIPE && std::exchange(unread_, true)) continue;  // every written line raises another one
    return s == SIGHUP || s == SIGPIPE ? SIGTERM : s;
  }
  return 0;
}

}  // namespace ft
