#include "app/node/node.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/doctor/patient.h"
#include "app/launch/launcher.h"
#include "app/launch/remote_ranks.h"
#include "engine/files/json.h"

namespace ft {
namespace {

using std::chrono::seconds;

constexpr seconds kLauncherSilent{15};
constexpr seconds kToSay{5};                  // time to send the last output after the ranks have ended
constexpr std::size_t kMostUnsent = 1 << 20;  // bytes; at this number the ranks' output waits

class Node final : public RankEvents {
 public:
  Exit run();

 private:
  void said(int rank, std::string_view text) override { tell({FrameKind::said, rank, std::string(text)}); }
  void answered(std::string_view text) override { tell({FrameKind::answered, 0, std::string(text)}); }
  void ended(int rank, int status) override { tell({FrameKind::ended, rank, std::to_string(status)}); }
  void tell(const Frame& f) { unsent_ += encode(f); }
  void flush();
  void hear();
  void take(const Frame&);
  void start(const JsonObject&);
  void wait();
  void check_launcher();

  SignalQueue signals_;
  Socket in_{::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)}, out_{::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)};
  FrameReader frames_;
  std::string unsent_;
  std::unique_ptr<LocalRanks> ranks_;
  Nurse nurse_;  // answers ft doctor
  Clock::time_point heard_at_ = Clock::now();
  bool alone_ = false;  // the connection to the launcher is lost
  bool failed_ = false;
};

void Node::flush() {
  while (!unsent_.empty() && out_) {
    const ssize_t n = ::write(out_.fd(), unsent_.data(), unsent_.size());
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n < 0) {
      out_ = Socket();
      alone_ = true;
    }
    if (n > 0) unsent_.erase(0, static_cast<std::size_t>(n));
  }
}

void Node::start(const JsonObject& j) {
  RankPlan plan{.command = j.texts("command"),
                .first = static_cast<int>(j.integer("first", 0, 1 << 16)),
                .count = static_cast<int>(j.integer("count", 1, 1 << 16)),
                .size = static_cast<int>(j.integer("size", 1, 1 << 16)),
                .master = j.text("master"),
                .port = static_cast<int>(j.integer("port", 0, 65535)),
                .token = j.text("token"),
                .gpus = j.text("gpus"),
                .environment = {}};
  for (const JsonObject& v : j.objects("environment"))
    plan.environment.emplace_back(v.text("name"), v.text("value"));
  const std::string folder = j.text("folder");
  if (::chdir(folder.c_str()) != 0)
    throw UserError(Exit::config, str("the folder ", printable(folder), ": ", std::strerror(errno),
                                      "\n  every machine needs the same folders; use a shared file system"));
  Socket listener;
  if (j.boolean("listen")) {
    listener = listen_for_ranks(plan.master, plan.port, true, plan.count < plan.size);
    plan.port = local_address(listener).port;
    tell({FrameKind::listening, plan.port, {}});
  }
  ranks_ = std::make_unique<LocalRanks>(plan, listener, signals_);
}

void Node::take(const Frame& f) {
  heard_at_ = Clock::now();
  if (f.kind == FrameKind::signal) {
    if (ranks_)
      ranks_->signal(f.number);
    else if (f.number != SIGUSR2)
      failed_ = true;  // a signal came before the ranks were started
  }
  if (f.kind == FrameKind::look || f.kind == FrameKind::reach) {
    tell(nurse_.answer(f));
    heard_at_ = Clock::now();
  }
  if (f.kind == FrameKind::start && !ranks_) start(JsonObject::parse(f.bytes, {.file = "ft launch"}));
}

void Node::hear() {
  std::array<char, 1 << 14> buffer;
  for (;;) {
    const ssize_t n = ::read(in_.fd(), buffer.data(), buffer.size());
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) break;
    if (n <= 0) {
      alone_ = true;
      break;
    }
    frames_.add({buffer.data(), static_cast<std::size_t>(n)});
  }
  while (const auto f = frames_.next()) take(*f);
}

void Node::wait() {
  std::vector<pollfd> fds{{signals_.fd(), POLLIN, 0}};
  if (!alone_) fds.push_back({in_.fd(), POLLIN, 0});
  if (!unsent_.empty() && out_) fds.push_back({out_.fd(), POLLOUT, 0});
  if (ranks_ && unsent_.size() < kMostUnsent) ranks_->add_to(fds);
  ::poll(fds.data(), fds.size(), 500);
  for (int s = signals_.next(); s != 0; s = signals_.next())
    if (s != SIGCHLD && ranks_) ranks_->signal(s);
}

void Node::check_launcher() {
  if (Clock::now() - heard_at_ > kLauncherSilent) alone_ = true;
  if (alone_ && ranks_) ranks_->signal(SIGKILL);
}

Exit Node::run() {
  for (const Socket* s : {&in_, &out_}) ::fcntl(s->fd(), F_SETFL, O_NONBLOCK);
  unsent_ = kNodeBegins;
  tell({FrameKind::hello, 0, own_fingerprint()});
  while (ranks_ ? ranks_->running() : !alone_ && !failed_) {
    flush();
    wait();
    try {
      if (!alone_) hear();
    } catch (const UserError& e) {
      tell({FrameKind::fault, static_cast<int>(e.code), e.what()});
      failed_ = true;
    }
    if (ranks_ && unsent_.size() < kMostUnsent) ranks_->advance(*this);
    check_launcher();
  }
  if (ranks_) ranks_->advance(*this);
  for (const auto until = Clock::now() + kToSay; !unsent_.empty() && out_ && Clock::now() < until;) {
    pollfd p{out_.fd(), POLLOUT, 0};
    ::poll(&p, 1, 100);
    flush();
  }
  return Exit::done;
}

}  // namespace

Exit run_node() { return Node().run(); }

}  // namespace ft
