#include "app/sweep/find_rate.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <numeric>

#include "app/assembly/built_data.h"
#include "app/assembly/built_model.h"
#include "app/process/watched_process.h"
#include "app/ranks/ranks.h"
#include "app/screen/format.h"
#include "app/screen/screen.h"
#include "app/sweep/one_run.h"
#include "engine/io/file.h"
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

// Steps of the whole run. UserError where nothing is held out to compare rates by.
std::int64_t steps_of_run(const RunConfig& config) {
  const BuiltModel built = build_model(config, Weights::ignore);
  const int ranks = grid_of(config.distributed).data;
  const BuiltData data = build_data(config, built.made.info.vocab_size, LoadPart::train_and_eval, {}, ranks);
  if (!data.eval)
    throw UserError(Exit::config,
                    "--find learning_rate compares held-out losses; set data.val_set_size or "
                    "data.eval_datasets");
  return length_of(config.training, data.batches(), ranks).total_steps;
}

class RateSearch {
 public:
  explicit RateSearch(const ConfigArgs& args)
      : name_(args.config), config_(load_config(args.config, args.settings())) {
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
    std::vector<double> rates = rates_around(config_.training.learning_rate, kFindRounds[0].rates);
    std::cout << table_.header(widest()) << std::endl;
    for (std::size_t round = 0; round < std::size(kFindRounds); ++round) {
      if (round > 0) rates = best_rates(rates, losses_, kFindRounds[round].rates);
      losses_.clear();
      for (const double rate : rates)
        if (!measure(rate, round)) return stopped();
      if (round > 0) continue;
      // The best rate may lie outside of what was tried first.
      const double beyond = rate_beyond(rates, best_rates(rates, losses_, 1).front());
      if (beyond == 0) continue;
      rates.push_back(beyond);
      if (!measure(beyond, round)) return stopped();
    }
    return advise(rates);
  }

 private:
  std::string file(const std::string& name) const { return join_path(folder_, name); }

  RunConfig with(double rate, std::size_t round) const {
    const double share = kFindRounds[round].share;
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

  // Trains with a rate, or reads what an earlier start measured. False: it was stopped.
  bool measure(double rate, std::size_t round) {
    const RunConfig config = with(rate, round);
    const std::string name = run_name(rate, config.training.max_steps), path = file(name);
    SweepRow row{
        .name = name, .values = {text_of(rate), std::to_string(config.training.max_steps)}, .result = {}};
    row.result = "done";
    if (!is_as_before(path, config) || !read_measured(config.training.output_dir, row)) {
      std::error_code none;
      std::filesystem::remove(path + ".json", none);  // without checkpoints it begins again
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
    losses_.push_back(row.exit_code == 0 ? row.eval_loss : NAN);
    trained_ += config.training.max_steps;
    std::cout << table_.line(row, widest()) << std::endl;
    table_.rows.push_back(row);
    write_file(file("find.csv"), table_.csv());
    write_file(file("find.md"), table_.markdown());
    const std::string picture = rate_svg(table_.rows, str("ft sweep --find learning_rate: ", name_));
    if (!picture.empty()) write_file(file("learning_rate.svg"), picture);
    return true;
  }

  // For the widths of columns.
  std::vector<SweepRow> widest() const {
    return {{.name = "", .values = {"0.000043", std::to_string(steps_)}, .result = {}}};
  }

  Exit stopped() {
    screen_.line("stopped; the same command continues from here");
    return Exit::preempted;
  }

  Exit advise(const std::vector<double>& rates) {
    const double best = best_rates(rates, losses_, 1).front();
    const double loss =
        *std::ranges::min_element(losses_, [](double a, double b) { return a < b || std::isnan(b); });
    if (!std::isfinite(loss))
      throw UserError(Exit::numeric,
                      "no rate gave a finite held-out loss; try a lower training.learning_rate");
    std::vector<double> tried;
    for (const SweepRow& row : table_.rows) tried.push_back(std::stod(row.values[0]));
    const std::string advised = text_of(rate_for_whole(best, std::end(kFindRounds)[-1].share));
    const std::string setting = "training.learning_rate=" + advised;
    std::cout << setting << std::endl;
    screen_.line(str("best     ", text_of(best), ": held out ", show::loss(loss),
                     " after a quarter of the run's ", show::plural(steps_, "step"), "; the search cost ",
                     show::digits(static_cast<double>(trained_) / static_cast<double>(steps_), 2), " runs"));
    screen_.line(str("advised  ", advised, ": the longer a run, the lower its best rate"));
    if (rate_beyond(tried, best) != 0)
      screen_.line("         it is the last one tried on its side: search again around it");
    screen_.line("picture  " + show::path(file("learning_rate.svg")));
    screen_.line(str("next     ft train --config ", name_, " ", setting));
    return Exit::done;
  }

  std::string name_, folder_;
  RunConfig config_;
  std::int64_t steps_ = 0, trained_ = 0;
  std::vector<double> losses_;  // of this round's rates
  SweepTable table_;
  Screen screen_{Screen::standard_error()};
  SignalQueue signals_;
};

}  // namespace

std::vector<double> rates_around(double rate, std::size_t count) {
  std::vector<double> rates;
  for (std::size_t i = 0; i < count; ++i)
    rates.push_back(
        two_digits(rate * std::pow(10.0, (static_cast<double>(i) - static_cast<double>(count / 2)) / 3)));
  return rates;
}

double rate_for_whole(double best, double share) { return two_digits(best * std::pow(share, 0.32)); }

double rate_beyond(const std::vector<double>& rates, double best) {
  if (best == *std::ranges::max_element(rates)) return two_digits(best * std::cbrt(10.0));
  if (best == *std::ranges::min_element(rates)) return two_digits(best / std::cbrt(10.0));
  return 0;
}

std::vector<double> best_rates(std::vector<double> rates, std::vector<double> losses, std::size_t count) {
  std::vector<std::size_t> order(rates.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return losses[a] < losses[b] || (std::isnan(losses[b]) && !std::isnan(losses[a]));
  });
  std::vector<double> best;
  for (std::size_t i = 0; i < std::min(count, order.size()); ++i) best.push_back(rates[order[i]]);
  std::ranges::sort(best);
  return best;
}

Exit find_rate(const ConfigArgs& args) { return RateSearch(args).run(); }

}  // namespace ft
