#include "app/process/signals.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <span>

namespace ft {
namespace {

// Globals, because a signal handler has no other data.
volatile std::sig_atomic_t g_signal = 0, g_save = 0, g_acknowledge = 0;

const char* signal_name(int signal) {
  switch (signal) {
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

void write_now(const char* text) { (void)!::write(STDERR_FILENO, text, std::strlen(text)); }

// Writes a line about a signal. Calls only functions that are safe in a handler.
void acknowledge(const char* name, const char* what, const char* more = "") {
  const auto how = static_cast<Acknowledge>(g_acknowledge);
  if (how == Acknowledge::no) return;
  const int before = errno;
  if (how == Acknowledge::over_live_line) write_now("\r\x1b[K");
  for (const char* part : {name, what, more, "\n"}) write_now(part);
  errno = before;
}

// Writes nothing if the terminal or the pipe is gone.
void acknowledge_stop(int which) {
  if (g_signal != 0 || which == SIGHUP || which == SIGPIPE) return;
  acknowledge(signal_name(which), ": finishing this step, then saving a checkpoint and stopping",
              which == SIGINT ? "; once more ends the run at once" : "");
}

void note_save(int) {
  if (g_save == 0) acknowledge("SIGUSR2", ": finishing this step, then saving a checkpoint and going on");
  g_save = 1;
}

void note_signal(int which) {
  acknowledge_stop(which);
  if (which == SIGINT && g_signal == SIGINT) {
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
  g_signal = which;
}

// Signals that stop a run. SIGHUP: the terminal is closed. SIGPIPE: the output's reader is gone; sockets
// raise none.
constexpr int kStops[] = {SIGTERM, SIGUSR1, SIGINT, SIGHUP, SIGPIPE};
constexpr int kInterrupt[] = {SIGINT};
constexpr int kSave[] = {SIGUSR2};

using Handler = void (*)(int);

// Starts noting the signals. Ignored signals stay ignored, as under nohup.
void start_noting(std::span<const int> signals, Handler handler = note_signal) {
  for (const int s : signals) {
    struct sigaction action {};
    sigaction(s, nullptr, &action);
    if (action.sa_handler == SIG_IGN) continue;
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    sigaction(s, &action, nullptr);
  }
}

void stop_noting(std::span<const int> signals, Handler handler = note_signal) {
  for (const int s : signals) {
    struct sigaction action {};
    sigaction(s, nullptr, &action);
    if (action.sa_handler == handler) std::signal(s, SIG_DFL);
  }
}

}  // namespace

StopSignals::StopSignals(bool enabled, Acknowledge acknowledge) : enabled_(enabled) {
  g_signal = 0;
  g_acknowledge = static_cast<int>(acknowledge);
  if (enabled_) start_noting(kStops);
}

StopSignals::~StopSignals() {
  if (enabled_) stop_noting(kStops);
}

bool StopSignals::asked() const { return g_signal != 0; }

std::string StopSignals::name() const { return signal_name(g_signal); }

SaveSignal::SaveSignal(bool enabled) : enabled_(enabled) {
  g_save = 0;
  if (enabled_) start_noting(kSave, note_save);
}

SaveSignal::~SaveSignal() {
  if (enabled_) stop_noting(kSave, note_save);
}

bool SaveSignal::take() {
  if (g_save == 0) return false;
  g_save = 0;
  return true;
}

NotedInterrupt::NotedInterrupt(bool enabled) : enabled_(enabled) {
  g_signal = 0;
  g_acknowledge = 0;
  if (enabled_) start_noting(kInterrupt);
}

NotedInterrupt::~NotedInterrupt() {
  if (enabled_) stop_noting(kInterrupt);
}

bool NotedInterrupt::asked() const { return g_signal == SIGINT; }

}  // namespace ft
