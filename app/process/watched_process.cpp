#include "app/process/watched_process.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "engine/core/error.h"

namespace ft {

WatchedProcess::WatchedProcess(const std::vector<std::string>& arguments, const std::string& log,
                               const SignalQueue& signals)
    : signals_(signals),
      log_(log, true),
      child_(start_child({.arguments = arguments, .environment = {}, .signals = signals.before()})) {}

int WatchedProcess::wait(bool& stopped, const std::function<void(const std::string&)>& says) {
  constexpr int kOften = 200;  // milliseconds
  int status = 0;
  while (::waitpid(child_.pid, &status, WNOHANG) == 0) {
    std::array<pollfd, 2> fds{
        {{signals_.fd(), POLLIN, 0}, {child_.output ? child_.output.fd() : -1, POLLIN, 0}}};
    ::poll(fds.data(), fds.size(), kOften);
    for (int s = signals_.next(); s != 0; s = signals_.next()) {
      if (s == SIGCHLD) continue;
      stopped |= s != SIGUSR2;  // the run saves and goes on
      ::kill(child_.pid, s);
    }
    hear();
    says(last_line_);
  }
  hear();
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

bool may_end_otherwise(int exit_code) {
  if (exit_code > 128) return true;
  for (const Exit exit : {Exit::storage, Exit::peer_lost, Exit::hang, Exit::preempted})
    if (exit_code == static_cast<int>(exit)) return true;
  return false;
}

void WatchedProcess::end() const { ::kill(child_.pid, SIGTERM); }

// Without the log the work goes on.
void WatchedProcess::keep(std::string_view text) {
  try {
    log_.append(text);
  } catch (const UserError& e) {
    if (e.code != Exit::storage) throw;
  }
}

void WatchedProcess::hear() {
  std::array<char, 1 << 14> buffer;
  while (child_.output) {
    const ssize_t n = ::read(child_.output.fd(), buffer.data(), buffer.size());
    if (n == 0) child_.output = Socket();
    if (n <= 0) return;
    const std::string_view text(buffer.data(), static_cast<std::size_t>(n));
    keep(text);
    for (const char c : text) {
      if (c != '\n') {
        line_ += c;
      } else if (!line_.empty()) {
        last_line_ = printable(line_, 400);
        line_.clear();
      }
    }
  }
}

}  // namespace ft
