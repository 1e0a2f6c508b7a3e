#include "app/launch.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "app/child.h"
#include "app/ranks.h"
#include "engine/dist/handshake.h"

namespace ft {
namespace {

constexpr std::chrono::seconds kGrace{3};  // for the others, once a rank has failed

// Every line with its rank before it, on stderr, and as it is in the rank's file.
class Labelled {
 public:
  Labelled(int rank, const std::string& folder)
      : label_("[" + std::to_string(rank) + "] "),
        path_((std::filesystem::path(folder) / ("rank-" + std::to_string(rank) + ".log")).string()),
        file_(std::fopen(path_.c_str(), "ae")) {
    if (!file_) throw UserError(Exit::storage, str(path_, ": ", std::strerror(errno)));
  }
  Labelled(const Labelled&) = delete;
  Labelled& operator=(const Labelled&) = delete;
  ~Labelled() {
    if (!line_.empty()) add("\n");
    std::fclose(file_);
  }
  void add(std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), file_);
    std::fflush(file_);
    for (const char c : text) {
      line_ += c;
      if (c != '\n' && line_.size() < kLongest) continue;
      const std::string all = label_ + line_ + (c == '\n' ? "" : "\n");
      std::fwrite(all.data(), 1, all.size(), stderr);
      line_.clear();
    }
  }

 private:
  static constexpr std::size_t kLongest = 1 << 16;  // bytes; a longer line is cut
  std::string label_, path_, line_;
  std::FILE* file_;
};

class Launcher {
 public:
  Launcher(const LaunchArgs& args, int ranks, const std::string& folder);
  Exit run();

 private:
  void hear();
  void reap();
  void ended(std::size_t rank, int status);
  void signal_all(int which);
  int running() const;

  SignalQueue signals_;
  std::vector<Child> children_;
  std::vector<std::unique_ptr<Labelled>> outputs_;
  int failure_ = 0;  // an exit code
  std::string culprit_;
  Clock::time_point kill_at_ = Clock::time_point::max();
};

Launcher::Launcher(const LaunchArgs& args, int ranks, const std::string& folder) {
  for (int r = 0; r < ranks; ++r) outputs_.push_back(std::make_unique<Labelled>(r, folder));
  Socket listener = listen_at({"127.0.0.1", 0});
  const std::string port = std::to_string(local_address(listener).port), size = std::to_string(ranks);
  const std::string token = random_token();
  for (int r = 0; r < ranks; ++r) {
    const std::string rank = std::to_string(r);
    Start start{.arguments = args.command,
                .environment = {{"RANK", rank},
                                {"LOCAL_RANK", rank},
                                {"WORLD_SIZE", size},
                                {"LOCAL_WORLD_SIZE", size},
                                {"MASTER_ADDR", "127.0.0.1"},
                                {"MASTER_PORT", port},
                                {kTokenVariable, token}},
                .signals = signals_.before()};
    if (r == 0) {
      start.inherited = listener.fd();
      start.environment.emplace_back(kListenerVariable, std::to_string(listener.fd()));
    }
    children_.push_back(start_child(start));
  }
}

int Launcher::running() const {
  int n = 0;
  for (const Child& c : children_) n += c.pid > 0;
  return n;
}

void Launcher::signal_all(int which) {
  for (const Child& c : children_)
    if (c.pid > 0) ::kill(-c.pid, which);
}

// Whatever the ranks have written.
void Launcher::hear() {
  std::array<char, 1 << 16> buffer;
  for (std::size_t r = 0; r < children_.size(); ++r)
    while (children_[r].output) {
      const ssize_t n = ::read(children_[r].output.fd(), buffer.data(), buffer.size());
      if (n > 0) outputs_[r]->add({buffer.data(), static_cast<std::size_t>(n)});
      if (n == 0) children_[r].output = Socket();
      if (n < 0) break;
    }
}

// The first to fail by itself is the culprit; one that only lost another rank (exit codes 8 and 9) is not,
// nor one that had to be killed.
void Launcher::ended(std::size_t rank, int status) {
  children_[rank].pid = 0;
  const bool killed = WIFSIGNALED(status);
  const int code = killed ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  if (code == 0 || Clock::now() > kill_at_) return;
  const auto lost_another = [](int c) {
    return c == static_cast<int>(Exit::peer_lost) || c == static_cast<int>(Exit::hang);
  };
  if (failure_ == 0 || (lost_another(failure_) && !lost_another(code))) {
    failure_ = code;
    culprit_ = str("rank ", rank, killed ? " was killed by signal " : " ended with exit code ",
                   killed ? WTERMSIG(status) : code);
  }
  // Those that are saving because of a signal are not hurried.
  if (code != static_cast<int>(Exit::preempted)) kill_at_ = std::min(kill_at_, Clock::now() + kGrace);
}

void Launcher::reap() {
  for (std::size_t r = 0; r < children_.size(); ++r) {
    int status = 0;
    if (children_[r].pid > 0 && ::waitpid(children_[r].pid, &status, WNOHANG) == children_[r].pid)
      ended(r, status);
  }
}

Exit Launcher::run() {
  while (running() > 0) {
    std::vector<pollfd> fds{{signals_.fd(), POLLIN, 0}};
    for (const Child& c : children_) fds.push_back({c.output ? c.output.fd() : -1, POLLIN, 0});
    const bool hurry = kill_at_ != Clock::time_point::max();
    ::poll(fds.data(), fds.size(), hurry ? milliseconds_until(kill_at_) : -1);
    for (int s = signals_.next(); s != 0; s = signals_.next())
      if (s != SIGCHLD) signal_all(s == SIGHUP ? SIGTERM : s);
    hear();
    reap();
    if (Clock::now() > kill_at_) signal_all(SIGKILL);
  }
  hear();
  if (failure_ != 0) std::fprintf(stderr, "ft launch: %s\n", culprit_.c_str());
  return Exit{failure_};
}

}  // namespace

Exit launch(const LaunchArgs& args, const std::string& output_dir, int configured) {
  if (args.ranks == 0 && configured <= 1)
    throw UserError(Exit::config, "ft launch: how many ranks? Give -n N, or set distributed.nproc_per_node");
  if (args.ranks > 0 && configured > 1 && args.ranks != configured)
    throw UserError(Exit::config, str("ft launch: -n is ", args.ranks, " and distributed.nproc_per_node is ",
                                      configured, "; give one of them"));
  const int ranks = args.ranks > 0 ? args.ranks : configured;
  const std::string folder =
      args.log_dir.empty() ? (std::filesystem::path(output_dir) / "ranks").string() : args.log_dir;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw UserError(Exit::storage, str(folder, ": cannot make the folder: ", error.message()));
  return Launcher(args, ranks, folder).run();
}

}  // namespace ft
