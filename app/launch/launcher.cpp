#include "app/launch/launcher.h"

#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>

#include "app/launch/labelled.h"
#include "app/launch/own_host.h"
#include "app/process/terminal.h"
#include "app/screen/screen.h"
#include "engine/core/environment.h"

namespace ft {
namespace {

constexpr std::chrono::seconds kGrace{3};  // time for the other ranks to end after one has failed
// Milliseconds between the messages that tell other machines that this one runs.
constexpr int kOften = 500;

// Returns options for lines that overwrite a rank's live line; the rank draws it again.
Screen::Options screen_options(bool over_live_line) {
  Screen::Options o = Screen::standard_error(ProgressStyle::plain);
  if (over_live_line) o.write = [write = o.write](const std::string& text) { write("\r\x1b[K" + text); };
  return o;
}

class Launcher final : public RankEvents {
 public:
  explicit Launcher(const Job&);
  Exit run();

 private:
  void said(int rank, std::string_view text) override {
    Labelled& output = *outputs_.at(static_cast<std::size_t>(rank - job_.first));
    rank == 0 && terminal_ ? output.show(text) : output.add(text);
  }
  void answered(std::string_view text) override;
  void ended(int rank, int status) override;
  void listening(int port) override;
  void noted(const std::string& host, std::string_view text) override;
  void lost(const std::string& host, Exit, const std::string& what) override;

  RankPlan plan_of(std::size_t host) const;
  void start(std::size_t host, const Socket& listener);
  void blame(int code, const std::string& who);
  void signal_all(int which);
  bool running() const;
  bool has_other_machines() const;
  bool lost_a_rank() const;
  void wait();
  void report_failure();

  const Job& job_;
  SignalQueue signals_;
  // The terminal on which rank 0 draws, if it is on this machine. Lines of other ranks overwrite its live
  // line.
  std::optional<TerminalSize> terminal_;
  Screen screen_;
  std::vector<std::unique_ptr<RankGroup>> groups_;  // by host; null: not started
  std::vector<RemoteRanks*> remote_;                // by host; null: this machine
  std::vector<std::unique_ptr<Labelled>> outputs_;  // by rank
  std::map<std::string, std::unique_ptr<Labelled>> notes_;
  int port_ = 0;
  int failure_ = 0;  // the launch's exit code
  int guilty_ = -1;  // the rank that failed first; -1: a machine
  std::string culprit_;
  Clock::time_point kill_at_ = Clock::time_point::max();
};

Launcher::Launcher(const Job& job)
    : job_(job),
      terminal_(is_here(job.hosts[0].name) && job.first == 0 ? terminal_size() : std::nullopt),
      screen_(screen_options(terminal_.has_value())),
      port_(job.port) {
  int rank = job.first;
  for (const Host& h : job.hosts)
    for (std::size_t i = 0; i < h.slots.size(); ++i, ++rank) {
      const std::string label =
          job.hosts.size() > 1 ? str("[", rank, " ", h.name, "] ") : str("[", rank, "] ");
      outputs_.push_back(std::make_unique<Labelled>(screen_, label, job.log_folder,
                                                    str(job.log_names, "rank-", rank, ".log")));
    }
  groups_.resize(job.hosts.size());
  remote_.resize(job.hosts.size());
  for (std::size_t h = 0; h < job.hosts.size(); ++h) {
    if (is_here(job.hosts[h].name)) continue;
    auto node = std::make_unique<RemoteRanks>(job.hosts[h].name, job.ssh, signals_);
    remote_[h] = node.get();
    groups_[h] = std::move(node);
  }
  if (remote_[0]) {
    remote_[0]->start(plan_of(0), job.first == 0);
  } else {
    Socket listener;
    if (job.first == 0) {
      const RankPlan plan = plan_of(0);
      listener = listen_for_ranks(plan.master, plan.port, !job.master.empty(), has_other_machines());
      port_ = local_address(listener).port;
    }
    start(0, listener);
    listening(port_);
  }
}

RankPlan Launcher::plan_of(std::size_t host) const {
  RankPlan plan{.command = job_.command,
                .first = job_.first,
                .count = static_cast<int>(job_.hosts[host].slots.size()),
                .size = job_.size,
                .master = job_.master.empty() ? job_.hosts[0].name : job_.master,
                .port = port_,
                .token = job_.token,
                .terminal = host == 0 ? terminal_ : std::nullopt,
                .gpus = {},
                .environment = job_.environment};
  for (std::size_t h = 0; h < host; ++h) plan.first += static_cast<int>(job_.hosts[h].slots.size());
  if (job_.hosts[host].chosen)
    for (const int slot : job_.hosts[host].slots)
      plan.gpus += (plan.gpus.empty() ? "" : ",") + std::to_string(slot);
  const auto set = [&](const std::string& variable) {
    const auto is = [&](const auto& v) { return v.first == variable; };
    return std::any_of(job_.environment.begin(), job_.environment.end(), is);
  };
  if (remote_[host])
    for (const auto& [name, value] : variables())
      if ((name.starts_with("NCCL_") || name == "LD_LIBRARY_PATH") && !set(name))
        plan.environment.emplace_back(name, value);
  if (!plan.gpus.empty())
    std::erase_if(plan.environment, [](const auto& v) { return v.first == "CUDA_VISIBLE_DEVICES"; });
  return plan;
}

void Launcher::start(std::size_t host, const Socket& listener) {
  groups_[host] = std::make_unique<LocalRanks>(plan_of(host), listener, signals_);
}

// Starts the other ranks once the port of rank 0 is known.
void Launcher::listening(int port) {
  port_ = port;
  for (std::size_t h = 1; h < job_.hosts.size(); ++h)
    if (remote_[h])
      remote_[h]->start(plan_of(h), false);
    else
      start(h, {});
}

void Launcher::noted(const std::string& host, std::string_view text) {
  auto& to = notes_[host];
  if (!to) to = std::make_unique<Labelled>(screen_, "[" + host + "] ");
  to->add(text);
}

void Launcher::signal_all(int which) {
  for (const auto& g : groups_)
    if (g) g->signal(which);
}

bool Launcher::running() const {
  return std::any_of(groups_.begin(), groups_.end(), [](const auto& g) { return g && g->running(); });
}

// True if some ranks run on other machines and must reach this one.
bool Launcher::has_other_machines() const {
  int here = 0;
  for (std::size_t h = 0; h < job_.hosts.size(); ++h)
    if (!remote_[h]) here += static_cast<int>(job_.hosts[h].slots.size());
  return here < job_.size;
}

// True if a rank was killed, does not answer, or its machine failed; false if it ended with an error.
bool Launcher::lost_a_rank() const {
  constexpr int kKilled = 128;  // plus the signal's number
  const auto ended_with = [&](Exit code) { return failure_ == static_cast<int>(code); };
  return failure_ > kKilled || ended_with(Exit::peer_lost) || ended_with(Exit::hang) ||
         ended_with(Exit::hardware);
}

// Notes the culprit: the first rank that failed by itself. A rank that only lost another one (exit codes 8
// and 9) or had to be killed is not the culprit.
void Launcher::blame(int code, const std::string& who) {
  if (Clock::now() > kill_at_) return;
  const auto lost_another = [](int c) {
    return c == static_cast<int>(Exit::peer_lost) || c == static_cast<int>(Exit::hang);
  };
  if (failure_ == 0 || (lost_another(failure_) && !lost_another(code))) {
    failure_ = code;
    culprit_ = who;
  }
  // After a signal the ranks save a checkpoint and may take their time.
  if (code != static_cast<int>(Exit::preempted)) kill_at_ = std::min(kill_at_, Clock::now() + kGrace);
}

// Passes rank 0's answers on to stdout, as without a launcher.
void Launcher::answered(std::string_view text) {
  outputs_.front()->keep(text);
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void Launcher::ended(int rank, int status) {
  const bool killed = WIFSIGNALED(status);
  const int code = killed ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  if (code == 0) return;
  const int before = failure_;
  blame(code, str("rank ", rank, killed ? " was killed by signal " : " ended with exit code ",
                  killed ? WTERMSIG(status) : code));
  if (failure_ != before) guilty_ = rank;
}

void Launcher::lost(const std::string& host, Exit code, const std::string& what) {
  blame(static_cast<int>(code), str(host, " ", what));
}

void Launcher::wait() {
  std::vector<pollfd> fds{{signals_.fd(), POLLIN, 0}};
  for (const auto& g : groups_)
    if (g) g->add_to(fds);
  const bool others = std::any_of(remote_.begin(), remote_.end(), [](const auto* r) { return r != nullptr; });
  const bool hurry = kill_at_ != Clock::time_point::max();
  const int until = hurry ? std::max(1, milliseconds_until(kill_at_)) : -1;
  ::poll(fds.data(), fds.size(), !others ? until : hurry ? std::min(until, kOften) : kOften);
  for (int s = signals_.next(); s != 0; s = signals_.next())
    if (s != SIGCHLD) signal_all(s);
  if (terminal_ && groups_[0]) groups_[0]->resize(terminal_size().value_or(*terminal_));
}

void Launcher::report_failure() {
  std::string text = "ft launch: " + culprit_;
  if (guilty_ >= 0)
    text += str("\n  its output: ", outputs_.at(static_cast<std::size_t>(guilty_ - job_.first))->path());
  if (lost_a_rank() && job_.command.front() == "train")
    text += "\n  training.resume_from_checkpoint=auto continues from the last complete checkpoint";
  screen_.line(text, Screen::kWhole);
}

Exit Launcher::run() {
  while (running()) {
    wait();
    for (const auto& g : groups_)
      if (g) g->advance(*this);
    if (Clock::now() > kill_at_) signal_all(SIGKILL);
  }
  for (const auto& g : groups_)
    if (g) g->advance(*this);
  if (failure_ != 0 && failure_ != static_cast<int>(Exit::preempted)) report_failure();
  return Exit{failure_};
}

}  // namespace

Socket listen_for_ranks(const std::string& host, int port, bool chosen, bool others) {
  Socket s = listen_at({host, port});
  const std::string number = local_address(s).host;
  if (others && is_loopback(number) && !(chosen && is_loopback(host)))
    throw UserError(Exit::config, str(printable(host), " is ", number,
                                      " here (see /etc/hosts), which other machines cannot reach\n  give "
                                      "--master_addr an address that they can reach"));
  return s;
}

Exit run_job(const Job& job) { return Launcher(job).run(); }

}  // namespace ft
