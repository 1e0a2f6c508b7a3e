#include "app/signals.h"

#include <csignal>

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

constexpr int kSignals[] = {SIGTERM, SIGUSR1, SIGINT};

}  // namespace

StopSignals::StopSignals(bool enabled) : enabled_(enabled) {
  g_signal = 0;
  if (!enabled_) return;
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;
  for (const int s : kSignals) sigaction(s, &action, nullptr);
}

StopSignals::~StopSignals() {
  if (!enabled_) return;
  for (const int s : kSignals) std::signal(s, SIG_DFL);
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
    default:
      return "";
  }
}

NotedInterrupt::NotedInterrupt(bool enabled) : enabled_(enabled) {
  g_signal = 0;
  if (!enabled_) return;
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
}

NotedInterrupt::~NotedInterrupt() {
  if (enabled_) std::signal(SIGINT, SIG_DFL);
}

bool NotedInterrupt::asked() const { return g_signal == SIGINT; }

}  // namespace ft
