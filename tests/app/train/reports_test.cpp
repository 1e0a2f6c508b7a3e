// Files that a run writes for its logging section.
#include "app/train/reports.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/engine/train/sample_run.h"

namespace ft {
namespace {

std::set<std::string> files_of(const LoggingConfig& config) {
  const TestFolder folder;
  std::string words;
  Screen::Options o;
  o.write = [&](const std::string& text) { words += text; };
  Screen screen(o);
  const auto report = make_reports(screen, config, folder.path());
  report->begin(sample_header());
  play(*report, 1, 5);
  report->end(sample_summary(5));
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    names.insert(entry.path().filename().string());
  return names;
}

TEST(Reports, FollowTheLoggingSection) {
  LoggingConfig config;
  EXPECT_EQ(files_of(config), (std::set<std::string>{"log.jsonl", "run_facts.json", "trainer_state.json",
                                                     "runs", "loss.svg", "report.html"}));
  config.report_to = {Reporter::none};
  config.plot_loss = false;
  config.html_report = false;
  EXPECT_EQ(files_of(config), (std::set<std::string>{"log.jsonl", "run_facts.json", "trainer_state.json"}));
  config.csv_monitor.enabled = true;
  EXPECT_EQ(files_of(config),
            (std::set<std::string>{"log.jsonl", "run_facts.json", "trainer_state.json", "csv"}));
  config.csv_monitor.enabled = false;
  config.wandb.enabled = true;
  EXPECT_EQ(files_of(config),
            (std::set<std::string>{"log.jsonl", "run_facts.json", "trainer_state.json", "wandb"}));
  config.wandb.enabled = false;
  config.report_to = {Reporter::wandb, Reporter::mlflow};
  EXPECT_EQ(files_of(config),
            (std::set<std::string>{"log.jsonl", "run_facts.json", "trainer_state.json", "wandb", "mlruns"}));
  config.report_to = {Reporter::prometheus};
  EXPECT_EQ(files_of(config),
            (std::set<std::string>{"log.jsonl", "run_facts.json", "trainer_state.json", "ft.prom"}));
}

}  // namespace
}  // namespace ft
