#include "app/child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "engine/core/error.h"

extern char** environ;

namespace ft {
namespace {

constexpr const char* kThisProgram = "/proc/self/exe";

// This process's variables, those in `own` replaced or added, as execve wants them.
std::vector<std::string> merged(const std::vector<std::pair<std::string, std::string>>& own) {
  std::vector<std::string> all;
  for (char** e = environ; *e; ++e) {
    const std::string entry = *e;
    const std::string name = entry.substr(0, entry.find('='));
    bool replaced = false;
    for (const auto& [key, value] : own) replaced |= key == name;
    if (!replaced) all.push_back(entry);
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

// Between fork and exec: only what is safe there.
[[noreturn]] void become(const Start& start, int output, int parent, char** arguments, char** environment) {
  // The kernel ends this process when its parent does, however that happens.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(static_cast<int>(Exit::peer_lost));
  setpgid(0, 0);  // a terminal's Ctrl-C comes through the launcher, once
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  if (start.inherited >= 0) fcntl(start.inherited, F_SETFD, 0);
  sigprocmask(SIG_SETMASK, &start.signals, nullptr);
  execve(kThisProgram, arguments, environment);
  constexpr char kFailed[] = "ft launch: cannot start ft again\n";
  (void)!write(STDERR_FILENO, kFailed, sizeof kFailed - 1);
  _exit(127);
}

}  // namespace

Child start_child(const Start& start) {
  std::vector<std::string> words{"ft"}, variables = merged(start.environment);
  words.insert(words.end(), start.arguments.begin(), start.arguments.end());
  const auto arguments = pointers(words), environment = pointers(variables);
  std::array<int, 2> ends{};
  const int parent = getpid();
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    throw UserError(Exit::hardware, str("cannot start a rank: ", std::strerror(errno)));
  Socket read_end(ends[0]), write_end(ends[1]);
  fcntl(read_end.fd(), F_SETFL, O_NONBLOCK);
  const int pid = fork();
  if (pid < 0) throw UserError(Exit::hardware, str("cannot start a rank: ", std::strerror(errno)));
  if (pid == 0)
    become(start, write_end.fd(), parent, const_cast<char**>(arguments.data()),
           const_cast<char**>(environment.data()));
  setpgid(pid, pid);  // here as well: whoever comes first
  return {pid, std::move(read_end)};
}

SignalQueue::SignalQueue() {
  sigemptyset(&mask_);
  for (const int s : {SIGCHLD, SIGTERM, SIGINT, SIGUSR1, SIGHUP}) sigaddset(&mask_, s);
  sigprocmask(SIG_BLOCK, &mask_, &before_);
  fd_ = Socket(signalfd(-1, &mask_, SFD_CLOEXEC | SFD_NONBLOCK));
}

SignalQueue::~SignalQueue() { sigprocmask(SIG_SETMASK, &before_, nullptr); }

int SignalQueue::next() const {
  signalfd_siginfo info{};
  return ::read(fd_.fd(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
}

}  // namespace ft
