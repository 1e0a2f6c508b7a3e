// objective.reward_command: a program that rewards answers, started once. It reads a line of JSON for each
// answer,
//   {"id":0,"prompt":"...","completion":"...","completion_ids":[...],"row":{...}}
// and writes one for each, in the same order:
//   {"id": 0, "reward": 1.5}        or "reward": null, where it has nothing to say
// Answers of one generation come all at once; ids go on rising from generation to generation.
#pragma once
#include <deque>
#include <optional>

#include "app/process/child.h"
#include "app/rollouts/reward.h"
#include "engine/train/reports/run_file.h"

namespace ft {

class RewardCommand final : public Reward {
 public:
  // seconds: the most that it may take to its next reward.
  RewardCommand(std::string command, double seconds) : command_(std::move(command)), seconds_(seconds) {}
  ~RewardCommand() override;
  RewardCommand(const RewardCommand&) = delete;
  RewardCommand& operator=(const RewardCommand&) = delete;

  std::string name() const override { return "reward_command"; }
  // Starts it, the first time. UserError (exit 3) where it ends, or writes what is no reward, or another
  // one's, or more than it was asked for; (exit 9) where it does not answer. It is ended then.
  std::vector<double> rewards(std::span<const RewardedAnswer>) override;
  // What it writes to stderr goes to reward_command.log, up to a MiB.
  void log_to(const std::string& folder) override { log_.emplace(folder + "/reward_command.log", true); }

 private:
  [[noreturn]] void fail(Exit, const std::string& what);
  [[noreturn]] void ended(std::size_t given);
  void exchange(std::string_view& out);  // one wait for it, and what can be read and written then
  void hear(Socket& from, bool errors);
  std::optional<std::string> line();  // complete, that it wrote
  double read(const std::string& line, std::int64_t number);
  void stop(double patience);

  std::string command_;
  double seconds_;
  Child child_;
  std::string heard_;  // of its output, not yet read
  std::string last_words_;
  std::int64_t lines_ = 0, logged_ = 0;
  std::optional<RunFile> log_;
};

}  // namespace ft
