#include "app/sweep/find_rate.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>

#include "app/assembly/built_data.h"
#include "app/assembly/built_model.h"
#include "app/process/watched_process.h"
#include "app/ranks/ranks.h"
#include "app/screen/format.h"
#include "app/screen/screen.h"
#include "app/sweep/one_run.h"
#include "engine/core/typography.h"
#include "engine/files/file.h"
#include "engine/train/trainer.h"

namespace ft {
namespace {

double two_digits(double x) {
  const double unit = std::pow(10.0, std::floor(std::log10(x)) - 1);
  return std::stod(show::digits(std::round(x / unit) * unit, 2));
}

std::string text_of(double rate) {
  std::ostringstream out;
  out << rate;
  return out.str();
}

// Returns the steps of the complete run. Throws UserError (config) if there is no held-out data to compare
// rates.
std::int64_t steps_of_run(const RunConfig& config) {
  const BuiltModel built = build_model(config, Weights::ignore);
  const int ranks = grid_of(config.distributed).data;
  const BuiltData data = build_data(config, built.made.info, LoadPart::train_and_eval, {}, ranks);
  if (!data.eval)
    throw UserError(Exit::config,
                    "--find learning_rate compares held-out losses; set data.val_set_size or "
                    "data.eval_datasets");
  return length_of(config.training, data.batches(), ranks).total_steps;
}

class RateSearch {
 public:
  explicit RateSearch(const ConfigArgs& args)
      : name_(args.config), given_(args.settings()), config_(load_config(args.config, given_)) {
    folder_ = config_.training.output_dir;
    table_.columns = {"training.learning_rate", "training.max_steps"};
  }

  Exit run() {
    {
      Working working(screen_, "reading data");
      steps_ = steps_of_run(config_);
    }
    screen_.clear();
    std::error_code error;
    std::filesystem::create_directories(folder_, error);
    if (error) throw UserError(Exit::storage, str(folder_, ": cannot make the folder: ", error.message()));
    std::cout << table_.header(widest()) << std::endl;
    std::vector<TriedRate> first, last;
    for (int i = 0; i < kFirstRates; ++i)
      if (!measure(i - kFirstRates / 2, kFirstShare, first)) return stopped();
    // The best rate may lie outside the tried rates.
    if (const auto beyond = step_beyond(first, best_of(first)))
      if (!measure(*beyond, kFirstShare, first)) return stopped();
    const LastRound round = last_round(first);
    for (int i = 0; i < round.rates; ++i)
      if (!measure(round.lowest + i, round.share, last)) return stopped();
    return advise(first, last);
  }

 private:
  std::string file(const std::string& name) const { return join_path(folder_, name); }

  RunConfig with(double rate, double share) const {
    RunConfig c = config_;
    TrainingConfig& t = c.training;
    t.learning_rate = rate;
    t.max_steps = std::max<std::int64_t>(1, std::llround(static_cast<double>(steps_) * share));
    if (t.warmup_steps >= 1) t.warmup_steps = std::max(1.0, std::round(t.warmup_steps * share));
    t.resume_from_checkpoint = Resume::none;
    c.evaluation = {};
    c.evaluation.eval_strategy = EvalStrategy::steps;
    c.evaluation.eval_steps = static_cast<double>(t.max_steps);
    c.checkpointing = {};
    c.checkpointing.save_strategy = SaveStrategy::no;
    c.checkpointing.save_on_signal = false;
    c.logging.report_to = {Reporter::none};
    c.logging.html_report = false;
    t.output_dir = file(run_name(rate, t.max_steps));
    return c;
  }
  static std::string run_name(double rate, std::int64_t steps) {
    return str("learning_rate=", text_of(rate), ",max_steps=", steps);
  }

  // Trains with a rate, or reads the result of an earlier start. Returns false if the user stopped it.
  bool measure(int step, double share, std::vector<TriedRate>& tried) {
    const double rate = rate_at(config_.training.learning_rate, step);
    const RunConfig config = with(rate, share);
    const std::string name = run_name(rate, config.training.max_steps), path = file(name);
    SweepRow row{
        .name = name, .values = {text_of(rate), std::to_string(config.training.max_steps)}, .result = {}};
    row.result = "done";
    if (!is_as_before(path, config) || !read_measured(config.training.output_dir, row)) {
      std::error_code none;
      std::filesystem::remove(path + ".json", none);  // without checkpoints the run starts over
      bool stop = false;
      const RunEnd end = run_train(path, config, signals_, stop, [&](const std::string& last) {
        screen_.live_line([=](int) { return str(name, "  ", last); });
      });
      screen_.clear();
      if (stop && end.exit_code != 0) return false;
      row.exit_code = end.exit_code;
      if (end.exit_code == 0)
        read_measured(config.training.output_dir, row);
      else if (end.exit_code == static_cast<int>(Exit::numeric))
        row.result = "not finite";
      else
        throw UserError(Exit{end.exit_code},
                        str(path, ".log: ", end.last_line.empty() ? "the run failed" : end.last_line));
    }
    tried.push_back({step, row.exit_code == 0 ? row.eval_loss : NAN});
    trained_ += config.training.max_steps;
    std::cout << table_.line(row, widest()) << std::endl;
    table_.rows.push_back(row);
    write_file(file("find.csv"), table_.csv());
    write_file(file("find.md"), table_.markdown());
    const std::string picture = rate_svg(table_.rows, str("ft sweep --find learning_rate: ", name_));
    if (!picture.empty()) write_file(file("learning_rate.svg"), picture);
    return true;
  }

  // Returns a row with the widest values, for the widths of columns.
  std::vector<SweepRow> widest() const {
    return {{.name = "", .values = {"0.000043", std::to_string(steps_)}, .result = {}}};
  }

  Exit stopped() {
    screen_.line("stopped; the same command continues from here");
    return Exit::preempted;
  }

  Exit advise(const std::vector<TriedRate>& first, const std::vector<TriedRate>& last) {
    const TriedRate best = best_of(last);
    const std::string setting =
        "training.learning_rate=" + text_of(rate_at(config_.training.learning_rate, best.step));
    std::cout << setting << std::endl;
    screen_.line(str("best     held out ", show::loss(best.loss), " after ", table_.rows.back().values[1],
                     " of the run's ", show::plural(steps_, "step"), "; the search cost ",
                     show::digits(static_cast<double>(trained_) / static_cast<double>(steps_), 2), " runs"));
    std::vector<TriedRate> all = first;
    all.insert(all.end(), last.begin(), last.end());
    if (const auto beyond = step_beyond(all, best))
      screen_.line(str("         it is the ", *beyond > best.step ? "highest" : "lowest",
                       " rate that was tried: search again around it"));
    screen_.line("picture  " + show::path(file("learning_rate.svg")));
    std::vector<std::string> words{"ft", "train", "--config", name_};
    words.insert(words.end(), given_.begin(), given_.end());
    words.push_back(setting);
    screen_.line("next     " + shell_line(words), Screen::kWhole);
    return Exit::done;
  }

  std::string name_, folder_;
  std::vector<std::string> given_;  // settings given on the command line
  RunConfig config_;
  std::int64_t steps_ = 0, trained_ = 0;
  SweepTable table_;
  Screen screen_{Screen::standard_error()};
  SignalQueue signals_;
};

}  // namespace

double rate_at(double rate, int step) { return two_digits(rate * std::pow(10.0, step / 3.0)); }

TriedRate best_of(const std::vector<TriedRate>& tried) {
  std::optional<TriedRate> best;
  for (const TriedRate& t : tried)
    if (std::isfinite(t.loss) &&
        (!best || t.loss < best->loss || (t.loss == best->loss && t.step < best->step)))
      best = t;
  if (!best)
    throw UserError(Exit::numeric, "no rate gave a finite held-out loss; try a lower training.learning_rate");
  return *best;
}

std::optional<int> step_beyond(const std::vector<TriedRate>& tried, const TriedRate& best) {
  const auto [lowest, highest] = std::ranges::minmax_element(tried, {}, &TriedRate::step);
  if (best.step == highest->step) return best.step + 1;
  if (best.step == lowest->step) return best.step - 1;
  return std::nullopt;
}

LastRound last_round(const std::vector<TriedRate>& first) {
  const TriedRate best = best_of(first);
  const auto is_level = [&](const TriedRate& t) {
    return t.loss <= best.loss + 0.001 * std::fabs(best.loss);
  };
  if (std::ranges::count_if(first, is_level) >= kLevelRates) {
    int highest = best.step;
    for (const TriedRate& t : first)
      if (is_level(t)) highest = std::max(highest, t.step);
    return {.lowest = highest - 1, .rates = 3, .share = 1.0 / 3};
  }
  const auto loss_at = [&](int step) {
    const auto at = std::ranges::find(first, step, &TriedRate::step);
    return at == first.end() ? NAN : at->loss;
  };
  const double lower = loss_at(best.step - 1), higher = loss_at(best.step + 1);
  const double bend = lower + higher - 2 * best.loss;
  const double lowest_point = std::isfinite(bend) && bend > 0 ? (lower - higher) / (2 * bend) : 0;
  constexpr double kShare = 1.0 / 2;
  const double longer = 0.32 * std::log(kShare / kFirstShare) / std::log(std::cbrt(10.0));
  return {
      .lowest = best.step + static_cast<int>(std::floor(lowest_point - longer)), .rates = 2, .share = kShare};
}

Exit find_rate(const ConfigArgs& args) { return RateSearch(args).run(); }

}  // namespace ft
