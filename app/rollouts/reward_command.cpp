#include "app/rollouts/reward_command.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

namespace ft {
namespace {

constexpr std::size_t kLongestLine = std::size_t{1} << 20;
constexpr std::int64_t kMostLogged = std::int64_t{1} << 20;

std::string question(const RewardedAnswer& a) {
  const Json line = {{"id", a.number},
                     {"prompt", a.prompt},
                     {"completion", a.completion},
                     {"completion_ids", a.ids},
                     {"row", a.row}};
  return json_text(line, -1) + "\n";
}

// Waits up to `patience` seconds. Returns how a process ended, as text; empty: it still runs.
std::string ending(int pid, double patience) {
  const auto until = Clock::now() + std::chrono::duration<double>(patience);
  int status = 0;
  while (::waitpid(pid, &status, WNOHANG) == 0) {
    if (Clock::now() > until) return "";
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  if (WIFSIGNALED(status)) return str("was ended by signal ", WTERMSIG(status));
  return str("ended with exit code ", WEXITSTATUS(status));
}

}  // namespace

RewardCommand::~RewardCommand() { stop(2); }

// Ends the program: closes its input, waits up to `patience` seconds for it to end by itself, then kills it.
void RewardCommand::stop(double patience) {
  if (child_.pid == 0) return;
  child_.input = Socket();
  child_.output = Socket();
  const bool gone = !ending(child_.pid, patience).empty();
  ::kill(-child_.pid, SIGKILL);  // the program and all its children
  if (!gone) ::waitpid(child_.pid, nullptr, 0);
  child_ = {};
}

void RewardCommand::fail(Exit exit, const std::string& what) {
  stop(0);
  const std::string words = last_words_.empty() ? "" : "\n  it said: " + printable(last_words_, 400);
  throw UserError(exit, str("objective.reward_command (", printable(command_), "): ", what, words));
}

void RewardCommand::ended(std::size_t given) {
  const std::string how = ending(child_.pid, 1);
  if (!how.empty()) {
    ::kill(-child_.pid, SIGKILL);
    child_ = {};
  }
  fail(Exit::input, str(how.empty() ? "closed its output" : how, " after ", given,
                        " rewards of this generation; it must go on until its input ends"));
}

void RewardCommand::hear(Socket& from, bool errors) {
  std::array<char, 1 << 14> buffer;
  for (int pieces = 0; from && pieces < 64; ++pieces) {
    const ssize_t n = ::read(from.fd(), buffer.data(), buffer.size());
    if (n == 0) from = Socket();
    if (n <= 0) return;
    const std::string_view text(buffer.data(), static_cast<std::size_t>(n));
    if (!errors) {
      heard_ += text;
      return;
    }
    last_words_ = (last_words_ + std::string(text));
    if (last_words_.size() > 400) last_words_.erase(0, last_words_.size() - 400);
    if (log_ && logged_ < kMostLogged) lost_->attempt([&] { log_->append(text); });
    logged_ += n;
  }
}

void RewardCommand::exchange(std::string_view& out) {
  constexpr int kOften = 50;  // milliseconds
  std::array<pollfd, 3> fds{{{child_.output ? child_.output.fd() : -1, POLLIN, 0},
                             {child_.errors ? child_.errors.fd() : -1, POLLIN, 0},
                             {out.empty() ? -1 : child_.input.fd(), POLLOUT, 0}}};
  ::poll(fds.data(), fds.size(), kOften);
  if (fds[2].revents != 0) {
    const ssize_t n = ::send(child_.input.fd(), out.data(), out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) out.remove_prefix(static_cast<std::size_t>(n));
    if (n < 0 && errno != EAGAIN && errno != EINTR) out = {};  // it stopped reading; its output tells why
  }
  if (fds[1].revents != 0) hear(child_.errors, true);
  if (fds[0].revents != 0) hear(child_.output, false);
}

std::optional<std::string> RewardCommand::line() {
  const std::size_t end = heard_.find('\n');
  if (end == std::string::npos) {
    if (heard_.size() > kLongestLine) fail(Exit::input, "writes a line longer than a MiB");
    return {};
  }
  std::string one = heard_.substr(0, end);
  heard_.erase(0, end + 1);
  ++lines_;
  return one;
}

double RewardCommand::read(const std::string& text, std::int64_t number) {
  const auto bad = [&](const std::string& what) {
    fail(Exit::input, str("line ", lines_, " of its output ", what, ": ", printable(text, 100)));
  };
  Json answer;
  try {
    answer = parse_json(text, {"", lines_});
  } catch (const UserError&) {
    bad("is not JSON");
  }
  if (!answer.is_object() || !answer.contains("id") || !answer.contains("reward"))
    bad("is not {\"id\": ..., \"reward\": ...}");
  if (answer["id"] != number)
    bad(str("is not the reward of answer ", number,
            ", which is next: they come in the order of the questions"));
  const Json& reward = answer["reward"];
  if (reward.is_null()) return NAN;
  if (!reward.is_number()) bad("has a reward that is no number");
  return reward.get<double>();
}

std::vector<double> RewardCommand::rewards(std::span<const RewardedAnswer> answers) {
  if (child_.pid == 0)
    child_ = start_child({.program = "sh",
                          .arguments = {"-c", command_},
                          .environment = {},
                          .own_input = true,
                          .own_errors = true});
  std::string questions;
  for (const RewardedAnswer& a : answers) questions += question(a);
  std::string_view out = questions;
  std::vector<double> all;
  const auto limit = std::chrono::duration<double>(seconds_);
  for (auto heard = Clock::now(); all.size() < answers.size();) {
    exchange(out);
    while (all.size() < answers.size()) {
      const std::optional<std::string> text = line();
      if (!text) break;
      all.push_back(read(*text, answers[all.size()].number));
      heard = Clock::now();
    }
    if (all.size() == answers.size()) break;
    if (!child_.output) ended(all.size());
    if (Clock::now() - heard > limit)
      fail(Exit::hang, str("no reward for ", seconds_, " s, after ", all.size(), " of ", answers.size(),
                           "; does it write out each line at once? objective.reward_timeout is the limit"));
  }
  if (!heard_.empty()) fail(Exit::input, str("writes more than the ", answers.size(), " rewards asked for"));
  return all;
}

}  // namespace ft
