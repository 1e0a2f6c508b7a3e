// Writes report.html when a run ends.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "app/report/run_page.h"
#include "engine/train/reports/report.h"

namespace ft {

// Must come after the log in the list of reports, because the page reads the log's rows.
class HtmlReport final : public Report {
 public:
  explicit HtmlReport(std::string folder) : folder_(std::move(folder)) {}

  void begin(const RunHeader& header) override;
  void progress(const StepRow& row) override { curves_.add(row); }
  void end(const Summary& summary) override;

 private:
  std::string folder_, settings_;
  std::vector<std::pair<std::string, std::string>> facts_;
  RunCurves curves_;
};

}  // namespace ft
