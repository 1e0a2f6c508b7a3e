#include "app/process/signals.h"

#include <csignal>
#include <span>

namespace ft {
namespace {

// The one thing that a signal handler may touch, and the reason for a global.
volatile std::sig_atomic_t g_signal = 0;

void note_signal(int which) {
  if (which == SIGINT && g_signal == SIGINT) {
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
  g_signal = which;
}

// SIGHUP: the terminal is gone. SIGPIPE: so is whoever read the output; sockets raise none.
constexpr int kStops[] = {SIGTERM, SIGUSR1, SIGINT, SIGHUP, SIGPIPE};
constexpr int kInterrupt[] = {SIGINT};

// What is ignored stays ignored, as with nohup.
void start_noting(std::span<const int> signals) {
  for (const int s : signals) {
    struct sigaction action {};
    sigaction(s, nullptr, &action);
    if (action.sa_handler == SIG_IGN) continue;
    action.sa_handler = note_signal;
    action.sa_flags = SA_RESTART;
    sigaction(s, &action, nullptr);
  }
}

void stop_noting(std::span<const int> signals) {
  for (const int s : signals) {
    struct sigaction action {};
    sigaction(s, nullptr, &action);
    if (action.sa_handler == note_signal) std::signal(s, SIG_DFL);
  }
}

}  // namespace

StopSignals::StopSignals(bool enabled) : enabled_(enabled) {
  g_signal = 0;
  if (enabled_) start_noting(kStops);
}

StopSignals::~StopSignals() {
  if (enabled_) stop_noting(kStops);
}

bool StopSignals::asked() const { return g_signal != 0; }

std::string StopSignals::name() const {
  switch (g_signal) {
    case SIGTERM:
      return "SIGTERM";
    case SIGUSR1:
      return "SIGUSR1";
    case SIGINT:
      return "Ctrl-C";
    case SIGHUP:
      return "SIGHUP (terminal closed)";
    case SIGPIPE:
      return "SIGPIPE (output pipe closed)";
    default:
      return "";
  }
}

NotedInterrupt::NotedInterrupt(bool enabled) : enabled_(enabled) {
  g_signal = 0;
  if (enabled_) start_noting(kInterrupt);
}

NotedInterrupt::~NotedInterrupt() {
  if (enabled_) stop_noting(kInterrupt);
}

bool NotedInterrupt::asked() const { return g_signal == SIGINT; }

}  // namespace ft
