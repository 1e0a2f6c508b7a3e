// objective.reward_command: a program that rewards answers, started once. It reads a line of JSON for each
// answer,
//   {"id":0,"prompt":"...","completion":"...","completion_ids":[...],"row":{...}}
// and writes a line for each, in the same order:
//   {"id": 0, "reward": 1.5}        or "reward": null for no reward
// All answers of a generation are sent at once. Ids keep rising from generation to generation.
#pragma once
#include <deque>
#include <optional>

#include "app/process/child.h"
#include "app/rollouts/reward.h"
#include "engine/train/reports/run_file.h"

namespace ft {

class RewardCommand final : public Reward {
 public:
  // `seconds`: the longest time to its next reward.
  RewardCommand(std::string command, double seconds) : command_(std::move(command)), seconds_(seconds) {}
  ~RewardCommand() override;
  RewardCommand(const RewardCommand&) = delete;
  RewardCommand& operator=(const RewardCommand&) = delete;

  std::string name() const override { return "reward_command"; }
  // Starts the program on the first call. Throws UserError (input) if it ends, writes a line that is not the
  // reward of the next answer, or writes more rewards than answers; (hang) if it does not answer in time.
  // Ends the program then.
  std::vector<double> rewards(std::span<const RewardedAnswer>) override;
  // Appends the program's stderr to reward_command.log, up to a MiB.
  void log_to(const std::string& folder, Report& warned) override {
    log_.emplace(folder + "/reward_command.log", true);
    lost_.emplace(warned);
  }

 private:
  [[noreturn]] void fail(Exit, const std::string& what);
  [[noreturn]] void ended(std::size_t given);
  void exchange(std::string_view& out);  // waits once, then reads and writes
  void hear(Socket& from, bool errors);
  std::optional<std::string> line();  // the next complete line of its output
  double read(const std::string& line, std::int64_t number);
  void stop(double patience);

  std::string command_;
  double seconds_;
  Child child_;
  std::string heard_;  // output that is not yet read as lines
  std::string last_words_;
  std::int64_t lines_ = 0, logged_ = 0;
  std::optional<RunFile> log_;
  std::optional<LostRows> lost_;  // of log_
};

}  // namespace ft
