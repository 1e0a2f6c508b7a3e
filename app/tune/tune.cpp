#include "app/tune/tune.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "app/ranks/ranks.h"
#include "app/screen/format.h"
#include "app/screen/screen.h"
#include "app/tune/candidates.h"
#include "app/tune/results.h"
#include "app/tune/search.h"
#include "app/tune/trials_file.h"
#include "engine/core/typography.h"
#include "engine/cpu/cores.h"
#include "engine/files/file.h"

namespace ft {
namespace {

// Returns the number of trials: by default a tenth of the points that fit, at least 6 and at most 50.
std::size_t trials_of(const TuneArgs& args, std::size_t fit) {
  constexpr std::size_t kAtLeast = 6, kAtMost = 50;
  if (args.all) return fit;
  if (args.trials > 0) return std::min(fit, static_cast<std::size_t>(args.trials));
  return std::min(fit, std::clamp(fit / 10, kAtLeast, kAtMost));
}

// Keeps only the points that need the least memory; the search then finds the fastest of them.
void keep_smallest(TuneCandidates& c) {
  constexpr double kAlike = 1.02;
  std::int64_t least = c.fit[0].device_memory();
  for (const TuneCandidate& one : c.fit) least = std::min(least, one.device_memory());
  std::vector<TuneCandidate> kept;
  std::optional<std::size_t> start;
  for (std::size_t i = 0; i < c.fit.size(); ++i) {
    if (static_cast<double>(c.fit[i].device_memory()) > kAlike * static_cast<double>(least)) continue;
    if (c.start == i) start = kept.size();
    kept.push_back(std::move(c.fit[i]));
  }
  c.fit = std::move(kept);
  c.start = start;
}

class Tuning {
 public:
  explicit Tuning(const TuneArgs& args) : args_(args) {}

  Exit run() {
    const int cores = cpu::usable_cores();
    space_ = read_tune_space(args_.config, args_.settings(), cores);
    plan(cores);
    folder_ = join_path(space_.own.training.output_dir, "tune");
    std::error_code error;
    std::filesystem::create_directories(folder_, error);
    if (error) throw UserError(Exit::storage, str(folder_, ": cannot make the folder: ", error.message()));
    make_rows();
    if (!args_.json) std::cout << results_.header() << std::endl;
    const bool stopped = search();
    if (results_.trials.empty() || !found_) {
      if (stopped) return Exit::preempted;
      throw UserError(Exit::hardware,
                      str("no trial ran to its end; the last: ", results_.rows[results_.trials.back()].result,
                          "; see ", file("trial.log")));
    }
    write_files();
    tell(stopped);
    return stopped ? Exit::preempted : Exit::done;
  }

 private:
  std::string file(const std::string& name) const { return join_path(folder_, name); }
  const TunePoint& point(std::size_t i) const { return space_.points[candidates_.fit[i].point]; }

  void plan(int cores) {
    {
      Working working(screen_, "planning");
      candidates_ = plan_candidates(space_, cores, [&](auto done, auto of) { working(done, of); });
    }
    if (candidates_.fit.empty())
      throw UserError(
          Exit::memory,
          str("none of ", show::plural(static_cast<std::int64_t>(space_.points.size()), "combination"),
              " fits: the smallest needs ", show::memory(candidates_.smallest), " of ",
              show::memory(candidates_.there), " per rank; a smaller data.max_seq_length helps"));
    if (args_.metric == TuneMetric::memory) keep_smallest(candidates_);
  }

  // Makes the rows. Their columns are the settings that differ.
  void make_rows() {
    std::vector<std::size_t> columns;
    for (std::size_t d = 0; d < space_.dimensions.size(); ++d)
      for (std::size_t i = 1; i < candidates_.fit.size(); ++i)
        if (point(i).values[d] != point(0).values[d]) {
          columns.push_back(d);
          break;
        }
    for (const std::size_t d : columns) results_.labels.push_back(space_.dimensions[d].label);
    for (std::size_t i = 0; i < candidates_.fit.size(); ++i) {
      TuneRow row{.values = {},
                  .assigned = assigned(i),
                  .memory = candidates_.fit[i].memory,
                  .predicted = NAN,
                  .tokens_per_second = NAN,
                  .seconds_per_step = NAN,
                  .result = {}};
      for (const std::size_t d : columns) row.values.push_back(point(i).values[d]);
      results_.rows.push_back(std::move(row));
    }
    results_.too_large = candidates_.too_large;
    if (candidates_.start) results_.start = static_cast<std::ptrdiff_t>(*candidates_.start);
  }

  std::string assigned(std::size_t i) const {
    Json all = Json::object();
    for (std::size_t d = 0; d < space_.dimensions.size(); ++d)
      if (!point(i).values[d].empty())
        all[space_.dimensions[d].path] = space_.dimensions[d].values[point(i).choice[d]];
    all["training.gradient_accumulation_steps"] = point(i).config.training.gradient_accumulation_steps;
    return json_text(all, -1);
  }

  // Runs the trials. Returns true if a signal stopped it.
  bool search() {
    std::vector<Traits> traits;
    for (const TuneCandidate& c : candidates_.fit) traits.push_back(c.traits);
    TuneSearch search(std::move(traits), trials_of(args_, candidates_.fit.size()), args_.all);
    TrialsFile trials(file("trials.jsonl"));
    SignalQueue signals;
    bool stopped = false;
    for (std::size_t i = 0; i < candidates_.fit.size(); ++i)
      if (const TrialOutcome* known = trials.find(TrialsFile::key(point(i).config))) note(search, i, *known);
    auto next = candidates_.start && search.trials() == 0 ? candidates_.start : search.next();
    for (; next && !stopped; next = search.next()) {
      const std::vector<double> guesses = search.seconds();
      results_.rows[*next].predicted = 1 / guesses[*next];
      const TrialOutcome outcome = run(*next, search, signals);
      stopped = outcome.interrupted;
      if (stopped) break;
      const bool memory = outcome.exit_code == static_cast<int>(Exit::memory);
      if (outcome.exit_code != 0 && !memory && search.trials() == 0) refuse_all(outcome);
      trials.add(TrialsFile::key(point(*next).config), results_.rows[*next].assigned, outcome);
      note(search, *next, outcome);
    }
    finish(search);
    return stopped;
  }

  TrialOutcome run(std::size_t i, const TuneSearch& search, const SignalQueue& signals) {
    double best = 0;
    if (const auto fastest = search.best()) best = results_.rows[*fastest].tokens_per_second;
    const TrialOutcome outcome = run_trial(
        point(i).config, file("trial"), args_.all ? 0 : best, signals, [&](const std::string& words) {
          screen_.live_line([this, i, words, n = search.trials() + 1](int) {
            return str("trial ", n, "  ", results_.settings(results_.rows[i]), "  ", words);
          });
        });
    screen_.clear();
    return outcome;
  }

  void note(TuneSearch& search, std::size_t i, const TrialOutcome& outcome) {
    const bool ran = outcome.speed.tokens_per_second > 0;
    TuneRow& row = results_.rows[i];
    row.tokens_per_second = ran ? outcome.speed.tokens_per_second : NAN;
    row.seconds_per_step = ran ? outcome.speed.seconds_per_step : NAN;
    row.result = outcome.result;
    search.tried(i, ran ? 1 / outcome.speed.tokens_per_second : 0, outcome.speed.noise);
    results_.trials.push_back(i);
    if (!args_.json) std::cout << results_.line(row) << std::endl;
  }

  // Ends ft tune: the first trial failed, and the others would fail too.
  [[noreturn]] void refuse_all(const TrialOutcome& outcome) const {
    const Exit code = outcome.exit_code > 128 ? Exit::hardware : Exit{outcome.exit_code};
    throw UserError(code, str("the first trial failed, ", outcome.result, "; see ", file("trial.log")));
  }

  void finish(const TuneSearch& search) {
    const auto best = search.best();
    found_ = best.has_value();
    if (!found_) return;
    results_.best = *best;
    const std::vector<double> seconds = search.seconds();
    for (std::size_t i = 0; i < results_.rows.size(); ++i)
      if (results_.rows[i].result.empty()) results_.rows[i].predicted = 1 / seconds[i];
  }

  void write_files() const {
    write_file(file("tuned.json"), effective_config(point(results_.best).config));
    write_file(file("tune.md"), results_.markdown());
    if (const std::string picture = results_.svg(str("ft tune: ", args_.config)); !picture.empty())
      write_file(file("tune.svg"), picture);
  }

  void tell(bool stopped) const {
    if (args_.json) {
      std::cout << results_.json(std::string(name_of(args_.metric)), file("tuned.json"));
      return;
    }
    const TuneRow& best = results_.rows[results_.best];
    const auto figures = [](const TuneRow& row) {
      return str(show::speed(row.tokens_per_second), ", ", show::digits(row.seconds_per_step),
                 " s per step, ", show::memory(row.memory), " per rank");
    };
    const bool launched = configured_ranks(point(results_.best).config.distributed) > 1;
    std::cout << "\nbest     " << results_.settings(best) << "\n         " << figures(best) << "\n";
    if (results_.start >= 0) {
      const TuneRow& start = results_.rows[static_cast<std::size_t>(results_.start)];
      if (&start != &best && std::isfinite(start.tokens_per_second))
        std::cout << "before   " << figures(start) << ": now "
                  << show::digits(best.tokens_per_second / start.tokens_per_second) << " times as fast\n";
    }
    std::cout << "trials   " << results_.trials.size() << " of " << results_.rows.size() << " that fit";
    if (results_.too_large > 0) std::cout << "; " << results_.too_large << " more do not";
    std::cout << "\nfiles    " << show::path(file("tuned.json")) << ", tune.md, tune.svg, trials.jsonl\n"
              << "run      ft " << (launched ? "launch " : "") << "train --config "
              << shell_line({show::path(file("tuned.json"))}) << "\n";
    if (stopped) std::cout << "stopped; the same command continues from here\n";
  }

  const TuneArgs& args_;
  TuneSpace space_;
  TuneCandidates candidates_;
  TuneResults results_;
  std::string folder_;
  bool found_ = false;
  Screen screen_{Screen::standard_error()};
};

}  // namespace

Exit tune(const TuneArgs& args) { return Tuning(args).run(); }

}  // namespace ft
