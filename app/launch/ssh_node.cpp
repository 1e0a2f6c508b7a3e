#include "app/launch/ssh_node.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "app/version/version.h"
#include "engine/files/hash.h"

namespace ft {
namespace {

using std::chrono::seconds;

constexpr seconds kToStart{60};  // includes ssh's own ConnectTimeout
constexpr seconds kAlive{2};
constexpr seconds kToEnd{5};

bool is_plain(const std::string& path) {
  constexpr std::string_view kFine = "/._-+";
  return !path.empty() && path[0] == '/' && std::all_of(path.begin(), path.end(), [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           kFine.find(c) != kFine.npos;
  });
}

}  // namespace

std::string own_fingerprint() { return str(kVersion, " ", sha256(InputFile(this_program()))); }

SshOptions ssh_options(int port) {
  return {.port = port, .program = this_program(), .fingerprint = own_fingerprint()};
}

std::vector<std::string> ssh_arguments(const std::string& host, const SshOptions& options) {
  if (!is_plain(options.program))
    throw UserError(Exit::config,
                    str("ft is at ", printable(options.program),
                        ": for several machines its path may contain only letters, digits and / . _ - +"));
  std::vector<std::string> words{"-T", "-x", "-a"};  // no terminal, no X11 and no agent forwarding
  for (const char* option : {"BatchMode=yes", "ConnectTimeout=15", "ServerAliveInterval=5",
                             "ServerAliveCountMax=2", "ClearAllForwardings=yes"})
    words.insert(words.end(), {"-o", option});
  if (options.port > 0) words.insert(words.end(), {"-p", std::to_string(options.port)});
  words.insert(words.end(), {"--", host, options.program + " " + kNodeCommand});
  return words;
}

SshNode::SshNode(std::string host, const SshOptions& options, const SignalQueue& signals)
    : host_(std::move(host)),
      fingerprint_(options.fingerprint),
      child_(start_child({.program = "ssh",
                          .arguments = ssh_arguments(host_, options),
                          .environment = {},
                          .own_input = true,
                          .own_errors = true,
                          .signals = signals.before()})),
      start_by_(Clock::now() + kToStart) {}

void SshNode::send(const Frame& f) {
  if (!child_.input) return;
  unsent_ += encode(f);
  flush();
}

void SshNode::flush() {
  while (!unsent_.empty() && child_.input) {
    const ssize_t n = ::send(child_.input.fd(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n < 0) child_.input = Socket();  // ssh has ended; its status tells why
    if (n > 0) unsent_.erase(0, static_cast<std::size_t>(n));
  }
}

void SshNode::add_to(std::vector<pollfd>& fds) const {
  for (const Socket* s : {&child_.output, &child_.errors})
    if (*s) fds.push_back({s->fd(), POLLIN, 0});
  if (!unsent_.empty() && child_.input) fds.push_back({child_.input.fd(), POLLOUT, 0});
}

void SshNode::hurry() {
  if (end_by_ == Clock::time_point()) end_by_ = Clock::now() + kToEnd;
}

void SshNode::hang_up() {
  child_.input = Socket();
  hurry();
}

void SshNode::fail(Events& to, Exit exit, const std::string& what) {
  if (std::exchange(failed_, true)) return;
  hang_up();
  to.failed(exit, what);
}

void SshNode::take(const Frame& f, Events& to) {
  if (f.kind == FrameKind::fault) return fail(to, Exit{f.number}, "says: " + f.bytes);
  if (f.kind != FrameKind::hello) return to.frame(f);
  greeted_ = true;
  if (f.bytes != fingerprint_)
    fail(to, Exit::mismatch,
         str("has a different ft from this machine: ", printable(f.bytes, 22), " and ",
             printable(fingerprint_, 22), "; install the same file on all"));
}

void SshNode::hear(Events& to) {
  std::array<char, 1 << 16> buffer;
  while (child_.output) {
    const ssize_t n = ::read(child_.output.fd(), buffer.data(), buffer.size());
    if (n == 0) child_.output = Socket();
    if (n <= 0) break;
    frames_.add({buffer.data(), static_cast<std::size_t>(n)});
  }
  try {
    std::string before;
    if (!begun_) {
      begun_ = frames_.begun(before);
      if (begun_ && !before.empty()) to.noted(before);
    }
    while (begun_)
      if (const auto f = frames_.next())
        take(*f, to);
      else
        break;
  } catch (const UserError& e) {
    fail(to, e.code, e.what());
  }
}

void SshNode::hear_errors(Events& to) {
  std::array<char, 1 << 12> buffer;
  while (child_.errors) {
    const ssize_t n = ::read(child_.errors.fd(), buffer.data(), buffer.size());
    if (n == 0) child_.errors = Socket();
    if (n <= 0) return;
    to.noted({buffer.data(), static_cast<std::size_t>(n)});
  }
}

void SshNode::reap(Events& to) {
  int status = 0;
  if (child_.pid == 0 || ::waitpid(child_.pid, &status, WNOHANG) != child_.pid) return;
  hear_errors(to);
  hear(to);
  child_.pid = 0;
  child_.input = Socket();
  if (done_) return;
  const std::string how = WIFSIGNALED(status) ? str("was killed by signal ", WTERMSIG(status))
                                              : str("ended with exit code ", WEXITSTATUS(status));
  fail(to, Exit::peer_lost,
       greeted_ ? str("is gone: ssh ", how)
                : str("could not be started: ssh ", how, "\n  try: ssh -o BatchMode=yes ", host_, " true"));
}

void SshNode::advance(Events& to) {
  flush();
  hear_errors(to);
  hear(to);
  const auto now = Clock::now();
  if (now >= alive_at_) {
    send({FrameKind::alive, 0, {}});
    alive_at_ = now + kAlive;
  }
  if (!greeted_ && now > start_by_)
    fail(to, Exit::peer_lost, str("did not start within ", kToStart.count(), " s"));
  if (end_by_ != Clock::time_point() && now > end_by_ && child_.pid > 0) ::kill(-child_.pid, SIGKILL);
  reap(to);
}

}  // namespace ft
