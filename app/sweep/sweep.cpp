#include "app/sweep/sweep.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>

#include "app/assembly/built_data.h"
#include "app/assembly/built_model.h"
#include "app/plan/planned.h"
#include "app/process/watched_process.h"
#include "app/ranks/ranks.h"
#include "app/screen/format.h"
#include "app/screen/screen.h"
#include "app/sweep/find_rate.h"
#include "app/sweep/grid.h"
#include "app/sweep/one_run.h"
#include "app/sweep/table.h"
#include "engine/files/file.h"

namespace ft {
namespace {

SweepRow empty_row(const SweepPlan& plan, const SweepRun& run) {
  SweepRow row{.name = run.name, .values = {}, .result = {}};
  for (const std::string& path : plan.columns) {
    const auto set = std::find_if(run.settings.begin(), run.settings.end(),
                                  [&](const auto& s) { return s.first == path; });
    row.values.push_back(set == run.settings.end() ? "" : set->second);
  }
  return row;
}

std::int64_t planned_memory(const RunConfig& config, Room room) {
  const BuiltModel built = build_model(config, Weights::ignore);
  const BuiltData data =
      build_data(config, built.made.info, LoadPart::train_and_eval, {}, grid_of(config.distributed).data);
  return planned(config, &data, room).plan.memory.total;
}

std::string too_large(std::int64_t planned, std::int64_t there) {
  const auto unit = show::memory_unit(planned);
  return str("out of memory: planned ", show::memory(planned, unit), " of ", show::memory(there, unit), " ",
             unit.name);
}

class Sweep {
 public:
  Sweep(SweepPlan plan, const std::string& config) : plan_(std::move(plan)), config_(config) {
    for (const SweepRun& run : plan_.runs) all_.push_back(empty_row(plan_, run));
    table_.columns = plan_.columns;
  }

  // Plans every run and starts none.
  Exit plan_only() {
    screen_.clear();
    std::cout << table_.header(all_) << std::endl;
    for (std::size_t i = 0; i < plan_.runs.size(); ++i) {
      const RunConfig& config = plan_.runs[i].config;
      SweepRow row = all_[i];
      const Room room = room_of(config);
      {
        Working working(screen_, str("planning run ", i + 1, " of ", plan_.runs.size()));
        row.memory = planned_memory(config, room);
      }
      const bool fits = room.there == 0 || row.memory <= room.there;
      row.result = fits ? "fits" : too_large(row.memory, room.there);
      std::cout << table_.line(row, all_) << std::endl;
    }
    return Exit::done;
  }

  Exit run() {
    std::error_code error;
    std::filesystem::create_directories(plan_.folder, error);
    if (error)
      throw UserError(Exit::storage, str(plan_.folder, ": cannot make the folder: ", error.message()));
    read_finished();
    std::cout << table_.header(all_) << std::endl;
    std::size_t good = 0;
    std::int64_t missing = 0;
    Exit exit = Exit::done;
    for (std::size_t i = 0; i < plan_.runs.size(); ++i) {
      SweepRow row = finished_[plan_.runs[i].name];
      if (row.name.empty()) row = run_one(i);
      if (stopped_ && row.exit_code != 0) {
        screen_.line("stopped; the same command continues from here");
        exit = Exit::preempted;
        break;
      }
      std::cout << table_.line(row, all_) << std::endl;
      good += row.exit_code == 0;
      if (may_end_otherwise(row.exit_code)) exit = Exit{row.exit_code}, ++missing;
      table_.rows.push_back(row);
      write_files();
      if (row.exit_code == 0 || plan_.on_failure != OnFailure::stop) continue;
      exit = Exit{row.exit_code};
      break;
    }
    const bool drawn = write_files();
    screen_.line(str(good, " of ", show::plural(static_cast<std::int64_t>(plan_.runs.size()), "run"),
                     "; table in ", show::path(file("sweep.md")),
                     drawn ? ", picture in " + show::path(file("sweep.svg")) : ""));
    if (missing > 0)
      screen_.line(str("no result of ", show::plural(missing, "run"), "; the same command tries again"));
    return exit;
  }

 private:
  std::string file(const std::string& name) const { return join_path(plan_.folder, name); }

  // Reads the rows of an earlier start whose settings are unchanged. Its table may have had other columns.
  void read_finished() {
    for (SweepRow row : read_sweep_table(file("sweep.json")).rows) {
      const auto run = std::find_if(plan_.runs.begin(), plan_.runs.end(),
                                    [&](const SweepRun& r) { return r.name == row.name; });
      if (run == plan_.runs.end() || may_end_otherwise(row.exit_code) ||
          !is_as_before(file(run->name), run->config))
        continue;
      row.values = empty_row(plan_, *run).values;
      finished_[row.name] = row;
    }
  }
  SweepRow run_one(std::size_t i) {
    const SweepRun& run = plan_.runs[i];
    SweepRow row = all_[i];
    const RunEnd end =
        run_train(file(run.name), run.config, signals_, stopped_, [&](const std::string& last) {
          screen_.live_line([=, this, &run](int) {
            return str("run ", i + 1, " of ", plan_.runs.size(), "  ", run.name, "  ", last);
          });
        });
    row.exit_code = end.exit_code;
    screen_.clear();
    if (row.exit_code == 0) {
      read_measured(run.config.training.output_dir, row);
      row.result = "done";
    } else if (row.exit_code == static_cast<int>(Exit::memory)) {
      const Room room = room_of(run.config);
      row.memory = planned_memory(run.config, room);
      row.result = too_large(row.memory, room.there);
    } else {
      row.result = row.exit_code > 128 ? str("ended by signal ", row.exit_code - 128)
                                       : str("exit ", row.exit_code, ": ", end.last_line);
    }
    return row;
  }

  // Writes the results. Returns true if there is a picture.
  bool write_files() const {
    write_file(file("sweep.json"), table_.json());
    write_file(file("sweep.csv"), table_.csv());
    write_file(file("sweep.md"), table_.markdown());
    const std::string picture = table_.svg(str("ft sweep: ", config_));
    if (!picture.empty()) write_file(file("sweep.svg"), picture);
    return !picture.empty();
  }

  SweepPlan plan_;
  std::string config_;
  std::vector<SweepRow> all_;  // rows of the runs, before they run
  SweepTable table_;
  std::map<std::string, SweepRow> finished_;
  Screen screen_{Screen::standard_error()};
  SignalQueue signals_;
  bool stopped_ = false;
};

// Prints the longest sequence that fits, a row for each combination of the other settings.
Exit find_longest(const SweepPlan& plan) {
  Screen screen(Screen::standard_error());
  std::vector<std::pair<std::string, std::string>> rows;
  std::size_t width = 8;
  for (std::size_t i = 0; i < plan.runs.size(); ++i) {
    const SweepRun& run = plan.runs[i];
    std::string settings;
    for (const auto& [path, value] : run.settings)
      settings += (settings.empty() ? "" : ", ") + short_name(path) + " " + value;
    const Room room = room_of(run.config);
    Working working(screen, str("planning run ", i + 1, " of ", plan.runs.size()));
    const std::int64_t length = longest_that_fits(run.config, room);
    rows.emplace_back(settings.empty() ? "as it is" : settings,
                      length > 0 ? show::count(length) : "none fits");
    width = std::max(width, rows.back().first.size());
  }
  screen.clear();
  std::cout << std::string(width, ' ') << "  longest max_seq_length\n";
  for (const auto& [settings, length] : rows)
    std::cout << settings
              << std::string(width - settings.size() + 2 + 22 - std::min<std::size_t>(22, length.size()), ' ')
              << length << "\n";
  return Exit::done;
}

}  // namespace

Exit sweep(const SweepArgs& args) {
  if (!args.find.empty()) return find_rate(args);
  if (args.longest) return find_longest(read_sweep(args.config, args.settings(), "data.max_seq_length"));
  SweepPlan plan = read_sweep(args.config, args.settings());
  Sweep sweep(std::move(plan), args.config);
  return args.dry_run ? sweep.plan_only() : sweep.run();
}

}  // namespace ft
