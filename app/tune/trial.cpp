#include "app/tune/trial.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "app/process/watched_process.h"
#include "app/ranks/ranks.h"
#include "app/screen/format.h"
#include "engine/files/file.h"
#include "engine/files/json.h"
#include "engine/train/schedules/list.h"

namespace ft {
namespace {

constexpr std::size_t kFewest = 3, kMost = 60;  // timed steps
constexpr double kShortest = 1, kLongest = 20;  // seconds of all timed steps
constexpr double kPrecise = 0.01;               // sufficient relative error
constexpr double kBehind = 1.25;                // multiple of the best seconds per token that is too slow
constexpr std::size_t kSurelyBehind = 2;        // steps that are enough to see it
constexpr double kLeastNoise = 0.01;            // relative difference of two starts of the same settings

double median(std::vector<double> x) {
  const auto middle = x.begin() + std::ssize(x) / 2;
  std::nth_element(x.begin(), middle, x.end());
  if (x.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(x.begin(), middle)) / 2;
}

std::vector<double> seconds_per_token(std::span<const TimedStep> steps) {
  std::vector<double> all;
  for (const TimedStep& s : steps.subspan(std::min<std::size_t>(1, steps.size())))
    if (s.tokens > 0) all.push_back(s.seconds / static_cast<double>(s.tokens));
  return all;
}

// Reads the steps so far from log.jsonl. Continues where it stopped; an incomplete line is read later.
class StepLog {
 public:
  explicit StepLog(std::string path) : path_(std::move(path)) {}

  void read() {
    if (!file_.is_open()) file_.open(path_);
    for (std::string line;;) {
      const auto start = file_.tellg();
      if (!std::getline(file_, line) || file_.eof()) {
        file_.clear();
        if (start >= 0) file_.seekg(start);
        return;
      }
      add(parse_json(line, {path_}));
    }
  }
  const std::vector<TimedStep>& steps() const { return steps_; }

 private:
  void add(const Json& row) {
    if (!row.contains("loss") || !row["tokens_per_second"].is_number()) return;
    const std::int64_t seen = row["num_input_tokens_seen"];
    const std::int64_t tokens = seen - seen_;
    const double speed = row["tokens_per_second"];
    seen_ = seen;
    if (speed > 0) steps_.push_back({static_cast<double>(tokens) / speed, tokens});
  }

  std::string path_;
  std::ifstream file_;
  std::int64_t seen_ = 0;
  std::vector<TimedStep> steps_;
};

}  // namespace

TrialSpeed speed_of(std::span<const TimedStep> steps) {
  const std::vector<double> times = seconds_per_token(steps);
  if (times.empty()) return {};
  const double middle = median(times);
  std::vector<double> apart;
  for (const double t : times) apart.push_back(std::abs(t - middle));
  // The standard error of a median of normal values, with a robust estimate of their deviation.
  const double error = 1.2533 * 1.4826 * median(apart) / std::sqrt(static_cast<double>(times.size()));
  double tokens = 0;
  for (const TimedStep& s : steps.subspan(1)) tokens += static_cast<double>(s.tokens);
  tokens /= static_cast<double>(steps.size() - 1);
  return {1 / middle, tokens * middle, std::hypot(error / middle, kLeastNoise)};
}

TrialVerdict judge_trial(std::span<const TimedStep> steps, double best) {
  const std::vector<double> times = seconds_per_token(steps);
  if (best > 0 && times.size() >= kSurelyBehind &&
      *std::min_element(times.begin(), times.end()) > kBehind / best)
    return TrialVerdict::behind;
  if (times.size() < kFewest) return TrialVerdict::go_on;
  double seconds = 0;
  for (const TimedStep& s : steps.subspan(1)) seconds += s.seconds;
  const bool precise = speed_of(steps).noise < std::hypot(kPrecise, kLeastNoise);
  const bool enough = times.size() >= kMost || seconds >= kLongest || (seconds >= kShortest && precise);
  return enough ? TrialVerdict::enough : TrialVerdict::go_on;
}

RunConfig trial_config(RunConfig c, const std::string& folder) {
  c.training.output_dir = folder;
  c.training.max_steps = kMost + 1;
  c.training.resume_from_checkpoint = Resume::none;
  c.training.lr_scheduler_type = &schedules::kConstant;  // needs no settings that are removed here
  c.training.lr_scheduler_kwargs = {};
  c.data_efficiency = {};  // its first steps are shorter than later ones
  c.evaluation = {};
  c.checkpointing = {};
  c.checkpointing.save_strategy = SaveStrategy::no;
  c.checkpointing.save_on_signal = false;
  c.logging = {};
  c.logging.logging_steps = 1;
  c.logging.report_to = {Reporter::none};
  c.logging.progress = ProgressStyle::none;
  c.logging.plot_loss = false;
  c.logging.html_report = false;
  return c;
}

TrialOutcome run_trial(const RunConfig& config, const std::string& folder, double best,
                       const SignalQueue& signals, const std::function<void(const std::string&)>& says) {
  std::error_code none;
  std::filesystem::remove_all(folder, none);
  std::filesystem::create_directories(folder, none);
  const RunConfig trial = trial_config(config, join_path(folder, "run"));
  write_file(join_path(folder, "run.json"), effective_config(trial));
  std::vector<std::string> words{"train", "--config", join_path(folder, "run.json")};
  if (configured_ranks(config.distributed) > 1) words.insert(words.begin(), "launch");
  StepLog log(join_path(trial.training.output_dir, "log.jsonl"));
  TrialVerdict verdict = TrialVerdict::go_on;
  TrialOutcome out;
  WatchedProcess process(words, folder + ".log", signals);
  const int exit_code = process.wait(out.interrupted, [&](const std::string&) {
    log.read();
    if (verdict != TrialVerdict::go_on) return;
    verdict = judge_trial(log.steps(), best);
    if (verdict != TrialVerdict::go_on) process.end();
    const TrialSpeed so_far = speed_of(log.steps());
    says(so_far.tokens_per_second > 0 ? show::speed(so_far.tokens_per_second) : "starting");
  });
  if (exit_code == 0) log.read();
  std::filesystem::remove_all(folder, none);
  if (out.interrupted) return out;
  out.steps = std::max<std::int64_t>(0, std::ssize(log.steps()) - 1);
  out.behind = verdict == TrialVerdict::behind;
  if (verdict != TrialVerdict::go_on || exit_code == 0) {
    out.speed = speed_of(log.steps());
    out.result = out.behind ? "slower: stopped early" : "done";
    return out;
  }
  out.exit_code = exit_code;
  out.result = exit_code > 128 ? str("ended by signal ", exit_code - 128)
                               : str("exit ", exit_code, ": ", process.last_line());
  return out;
}

}  // namespace ft
