#include "app/launch/local_ranks.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "app/ranks/ranks.h"

namespace ft {
namespace {

void hear(Socket& from, const auto& take) {
  std::array<char, 1 << 16> buffer;
  while (from) {
    const ssize_t n = ::read(from.fd(), buffer.data(), buffer.size());
    if (n > 0) take(std::string_view(buffer.data(), static_cast<std::size_t>(n)));
    const bool closed = n == 0 || (n < 0 && errno == EIO);  // no process has the terminal open any more
    if (closed) from = Socket();
    if (n < 0) return;
  }
}

}  // namespace

LocalRanks::LocalRanks(const RankPlan& plan, const Socket& listener, const SignalQueue& signals)
    : first_(plan.first), terminal_(plan.terminal) {
  for (int i = 0; i < plan.count; ++i) {
    Start start{.program = {},
                .arguments = plan.command,
                .environment = plan.environment,
                .signals = signals.before()};
    const std::vector<std::pair<std::string, std::string>> own = {
        {"RANK", std::to_string(plan.first + i)},
        {"LOCAL_RANK", std::to_string(i)},
        {"WORLD_SIZE", std::to_string(plan.size)},
        {"LOCAL_WORLD_SIZE", std::to_string(plan.count)},
        {"MASTER_ADDR", plan.master},
        {"MASTER_PORT", std::to_string(plan.port)},
        {kTokenVariable, plan.token}};
    start.environment.insert(start.environment.end(), own.begin(), own.end());
    if (!plan.gpus.empty()) start.environment.emplace_back("CUDA_VISIBLE_DEVICES", plan.gpus);
    if (plan.first + i == 0) {
      start.own_errors = true;
      start.terminal = plan.terminal;
      start.inherited = listener.fd();
      start.environment.emplace_back(kListenerVariable, std::to_string(listener.fd()));
    }
    children_.push_back(start_child(start));
  }
}

bool LocalRanks::running() const {
  return std::any_of(children_.begin(), children_.end(), [](const Child& c) { return c.pid > 0; });
}

void LocalRanks::resize(const TerminalSize& size) {
  if (!terminal_ || size == *terminal_ || !children_[0].errors) return;
  terminal_ = size;
  set_terminal_size(children_[0].errors.fd(), size);
}

void LocalRanks::signal(int which) {
  for (const Child& c : children_)
    if (c.pid > 0) ::kill(-c.pid, which);
}

void LocalRanks::add_to(std::vector<pollfd>& fds) const {
  for (const Child& c : children_)
    for (const Socket* s : {&c.output, &c.errors})
      if (*s) fds.push_back({s->fd(), POLLIN, 0});
}

// Reports a rank's output before its end, so that its last lines are known when it has ended.
void LocalRanks::advance(RankEvents& to) {
  for (std::size_t i = 0; i < children_.size(); ++i) {
    int status = 0;
    const bool ended =
        children_[i].pid > 0 && ::waitpid(children_[i].pid, &status, WNOHANG) == children_[i].pid;
    const int rank = first_ + static_cast<int>(i);
    Child& c = children_[i];
    hear(c.errors, [&](std::string_view text) { to.said(rank, text); });
    hear(c.output, [&](std::string_view text) { rank == 0 ? to.answered(text) : to.said(rank, text); });
    if (!ended) continue;
    children_[i].pid = 0;
    to.ended(rank, status);
  }
}

}  // namespace ft
