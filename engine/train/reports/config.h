// Settings under `logging`, with the names of Hugging Face's TrainingArguments and of DeepSpeed's blocks.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/rules.h"

namespace ft {

enum class LogLevel : std::uint8_t { debug, info, warning, error };
constexpr auto words(LogLevel) {
  using enum LogLevel;
  return to_words<LogLevel>({{debug, "debug"}, {info, "info"}, {warning, "warning"}, {error, "error"}});
}

enum class Reporter : std::uint8_t { jsonl, tensorboard, wandb, mlflow, csv, prometheus, none };
constexpr auto words(Reporter) {
  using enum Reporter;
  return to_words<Reporter>({{jsonl, "jsonl"},
                             {tensorboard, "tensorboard"},
                             {wandb, "wandb"},
                             {wandb, "wandb_offline"},
                             {mlflow, "mlflow"},
                             {csv, "csv"},
                             {prometheus, "prometheus"},
                             {none, "none"}});
}

// Display of progress. by_terminal: bar on a terminal, else plain; full: bar with a curve of the loss.
enum class ProgressStyle : std::uint8_t { by_terminal, bar, full, plain, none };
constexpr auto words(ProgressStyle) {
  using enum ProgressStyle;
  return to_words<ProgressStyle>(
      {{by_terminal, "auto"}, {bar, "bar"}, {full, "full"}, {plain, "plain"}, {none, "none"}});
}

// A kind of log files: DeepSpeed's csv_monitor and tensorboard.
struct MonitorConfig {
  bool enabled = false;
  std::string output_path, job_name;

  void fields(auto& f) {
    f("enabled", enabled, "Write these files, as if report_to named them.");
    f("output_path", output_path, "Folder of several jobs; empty: the run's folder.", is_path());
    f("job_name", job_name, "Folder of this run in output_path.", not_empty());
  }
};

// An offline run of Weights & Biases: DeepSpeed's wandb.
struct WandbConfig {
  bool enabled = false;
  std::string output_path, project = "ft", entity, group;

  void fields(auto& f) {
    f("enabled", enabled, "Write the run, as if report_to named it.");
    f("output_path", output_path, "Folder whose wandb/ holds the runs; empty: the run's folder.", is_path());
    f("project", project, "Project of the run.", not_empty());
    f("entity", entity, "Owner of the project, a user or a team; empty: the user who sends the run.");
    f("group", group, "Group of the run; empty: none.");
  }
};

// MLflow's file store.
struct MlflowConfig {
  std::string output_path, experiment_name = "ft";

  void fields(auto& f) {
    f("output_path", output_path, "Folder whose mlruns/ holds the runs; empty: the run's folder.", is_path());
    f("experiment_name", experiment_name, "Experiment of the run.", not_empty());
  }
};

// DeepSpeed's flops_profiler.
struct FlopsProfilerConfig {
  bool enabled = false;
  std::int64_t profile_step = 3;
  std::int64_t module_depth = -1;
  std::int64_t top_modules = 3;
  bool detailed = true;
  std::optional<std::string> output_file;
  double recompute_fwd_factor = 0;

  void fields(auto& f) {
    f("enabled", enabled, "Profile one step of a training run; ft profile always does.");
    f("profile_step", profile_step, "Step to profile; the steps before it warm up.", at_least(1));
    f("module_depth", module_depth, "Show modules down to this depth; -1: all.", at_least(-1));
    f("top_modules", top_modules, "Number of modules to name for each depth, those with the most time.",
      at_least(1));
    f("detailed", detailed, "Show a table of the modules, summed over layers.");
    f("output_file", output_file, "Write the tables to this file; null: to the screen.", is_path(),
      not_empty());
    f("recompute_fwd_factor", recompute_fwd_factor,
      "Times that the forward pass's FLOPs are added for recomputation in backward; 0: only the model's own "
      "FLOPs.",
      at_least(0));
  }
};

// Collectives that DeepSpeed's comms_logger counts, by DeepSpeed's and torch's names.
enum class LoggedOp : std::uint8_t { all_gather, reduce_scatter, all_reduce, broadcast, transfer, barrier };
constexpr auto words(LoggedOp) {
  using enum LoggedOp;
  return to_words<LoggedOp>({{all_gather, "all_gather"},
                             {reduce_scatter, "reduce_scatter"},
                             {all_reduce, "all_reduce"},
                             {broadcast, "broadcast"},
                             {transfer, "transfer"},
                             {barrier, "barrier"},
                             {all_gather, "all_gather_into_tensor"},
                             {reduce_scatter, "reduce_scatter_tensor"},
                             {transfer, "send"},
                             {transfer, "recv"}});
}

struct CommsLoggerConfig {
  bool enabled = false;
  bool verbose = false;
  bool prof_all = true;
  std::vector<LoggedOp> prof_ops;
  bool debug = false;

  void fields(auto& f) {
    f("enabled", enabled,
      "Several ranks: count collectives, their bytes, time and bandwidth; docs/profiling.md.");
    f("verbose", verbose, "Print each collective.");
    f("prof_all", prof_all, "Count all collectives.");
    f("prof_ops", prof_ops, "Without prof_all: collectives to count.");
    f("debug", debug, "Count by contents too: a block of the model, the loss.");
  }
};

struct LoggingConfig {
  double logging_steps = 10;
  bool logging_first_step = true;
  LogLevel log_level = LogLevel::info;
  std::vector<Reporter> report_to{Reporter::jsonl, Reporter::tensorboard};
  ProgressStyle progress = ProgressStyle::by_terminal;
  std::optional<std::string> run_name;
  bool plot_loss = true;
  bool html_report = true;
  std::optional<std::string> prometheus_textfile;
  MonitorConfig tensorboard{.job_name = "runs"};
  MonitorConfig csv_monitor{.job_name = "csv"};
  WandbConfig wandb;
  MlflowConfig mlflow;
  std::optional<std::int64_t> steps_per_print;
  bool wall_clock_breakdown = false;
  bool memory_breakdown = false;
  FlopsProfilerConfig flops_profiler;
  CommsLoggerConfig comms_logger;

  void fields(auto& f) {
    f("logging_steps", logging_steps, "Steps between rows of the log; below 1: a fraction of all steps.",
      above(0), whole_from_one());
    f("steps_per_print", steps_per_print,
      "Print a line on the screen every this many steps; null: without a live line, at every row of the log.",
      at_least(1));
    f("logging_first_step", logging_first_step, "Log the first step too.");
    f("log_level", log_level, "Lines to print: errors always, then warnings, then progress.");
    f("report_to", report_to,
      "Formats of the log. log.jsonl is always written; none: no other format. wandb and mlflow are files; "
      "ft sends nothing: docs/trackers.md.");
    f("progress", progress,
      "Progress on the screen. bar: one live line; full: the course of the loss above it, if the terminal is "
      "tall enough; plain: a line per row; auto: bar on a terminal, else plain.");
    f("run_name", run_name, "Name of the run in plots and logs; null: the output folder's name.");
    f("plot_loss", plot_loss, "Write loss.svg at the end.");
    f("html_report", html_report,
      "Write report.html at the end: one page that opens offline; docs/trackers.md.");
    f("prometheus_textfile", prometheus_textfile,
      "With report_to prometheus: file with the newest numbers, for node_exporter; null: ft.prom.",
      is_path());
    f("tensorboard", tensorboard, "TensorBoard's files: DeepSpeed's names.");
    f("csv_monitor", csv_monitor, "CSV files, one for each number, as DeepSpeed writes them.");
    f("wandb", wandb, "With report_to wandb: the offline run, for wandb sync.");
    f("mlflow", mlflow, "With report_to mlflow: the file store.");
    f("wall_clock_breakdown", wall_clock_breakdown,
      "Log the seconds of forward, backward, reduce, step, data and save since the last row. On a GPU this "
      "costs a little speed.");
    f("memory_breakdown", memory_breakdown,
      "Log the memory of each phase of a step, and print a table at the end.");
    f("comms_logger", comms_logger, "Log of communication between ranks: DeepSpeed's names.");
    f("flops_profiler", flops_profiler,
      "Parameters, FLOPs, time and memory of each module in one step; docs/profiling.md.");
  }
};

}  // namespace ft
