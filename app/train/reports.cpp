#include "app/train/reports.h"

#include <algorithm>

#include "app/plot/loss_plot.h"
#include "app/screen/progress.h"
#include "engine/io/file.h"
#include "engine/train/json_log.h"
#include "engine/train/logging/csv_files.h"
#include "engine/train/prometheus.h"
#include "engine/train/tensorboard.h"
#include "engine/train/trainer_state.h"

namespace ft {

namespace {

std::string folder_of(const MonitorConfig& monitor, const std::string& run) {
  return join_path(monitor.output_path.empty() ? run : monitor.output_path, monitor.job_name);
}

}  // namespace

std::unique_ptr<Reports> make_reports(Screen& screen, const LoggingConfig& config,
                                      const std::string& folder) {
  const auto wanted = [&](Reporter reporter) {
    return std::find(config.report_to.begin(), config.report_to.end(), reporter) != config.report_to.end();
  };
  auto all = std::make_unique<Reports>();
  all->add(std::make_unique<JsonLog>(join_path(folder, "log.jsonl")));
  all->add(std::make_unique<TrainerState>(join_path(folder, "trainer_state.json")));
  if (config.tensorboard.enabled || wanted(Reporter::tensorboard))
    all->add(std::make_unique<TensorBoard>(folder_of(config.tensorboard, folder)));
  if (config.csv_monitor.enabled || wanted(Reporter::csv))
    all->add(std::make_unique<CsvFiles>(folder_of(config.csv_monitor, folder)));
  if (config.prometheus_textfile || wanted(Reporter::prometheus))
    all->add(std::make_unique<Prometheus>(config.prometheus_textfile.value_or(join_path(folder, "ft.prom"))));
  if (config.plot_loss) all->add(std::make_unique<LossPlot>(join_path(folder, "loss.svg")));
  all->add(std::make_unique<Progress>(screen, config));
  return all;
}

}  // namespace ft
