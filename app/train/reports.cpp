#include "app/train/reports.h"

#include <algorithm>

#include "app/plot/loss_plot.h"
#include "app/report/html_report.h"
#include "app/report/run_facts.h"
#include "app/screen/progress.h"
#include "engine/files/file.h"
#include "engine/train/reports/best_effort.h"
#include "engine/train/reports/csv_files.h"
#include "engine/train/reports/json_log.h"
#include "engine/train/reports/mlflow.h"
#include "engine/train/reports/prometheus.h"
#include "engine/train/reports/tensorboard.h"
#include "engine/train/reports/trainer_state.h"
#include "engine/train/reports/wandb.h"

namespace ft {

namespace {

const std::string& or_else(const std::string& path, const std::string& run) {
  return path.empty() ? run : path;
}

// Returns the report of a monitor, in its folder or the run's.
template <class Monitor>
std::unique_ptr<Report> monitored(const MonitorConfig& monitor, const std::string& run) {
  return std::make_unique<Monitor>(or_else(monitor.output_path, run), monitor.job_name);
}

}  // namespace

std::unique_ptr<Reports> make_reports(Screen& screen, const LoggingConfig& config,
                                      const std::string& folder) {
  const auto wanted = [&](Reporter reporter) {
    return std::find(config.report_to.begin(), config.report_to.end(), reporter) != config.report_to.end();
  };
  auto all = std::make_unique<Reports>();
  const auto add = [&all](std::unique_ptr<Report> files) {
    all->add(std::make_unique<BestEffort>(std::move(files), *all));
  };
  add(std::make_unique<JsonLog>(join_path(folder, "log.jsonl")));
  add(std::make_unique<RunFacts>(join_path(folder, "run_facts.json")));
  add(std::make_unique<TrainerState>(join_path(folder, "trainer_state.json")));
  if (config.tensorboard.enabled || wanted(Reporter::tensorboard))
    add(monitored<TensorBoard>(config.tensorboard, folder));
  if (config.csv_monitor.enabled || wanted(Reporter::csv))
    add(monitored<CsvFiles>(config.csv_monitor, folder));
  if (config.wandb.enabled || wanted(Reporter::wandb))
    add(std::make_unique<Wandb>(or_else(config.wandb.output_path, folder), config.wandb));
  if (wanted(Reporter::mlflow))
    add(std::make_unique<Mlflow>(or_else(config.mlflow.output_path, folder), config.mlflow.experiment_name));
  if (config.prometheus_textfile || wanted(Reporter::prometheus))
    add(std::make_unique<Prometheus>(config.prometheus_textfile.value_or(join_path(folder, "ft.prom"))));
  if (config.plot_loss) add(std::make_unique<LossPlot>(join_path(folder, "loss.svg")));
  if (config.html_report) add(std::make_unique<HtmlReport>(folder));
  all->add(std::make_unique<Progress>(screen, config));
  return all;
}

}  // namespace ft
