// Writes report.html when a run ends.
#pragma once
#include <string>

#include "app/report/run_page.h"
#include "engine/train/reports/report.h"

namespace ft {

// Must come after the log and the facts in the list of reports, because the page reads their files.
class HtmlReport final : public Report {
 public:
  explicit HtmlReport(std::string folder) : folder_(std::move(folder)) {}

  void begin(const RunHeader& header) override;
  void progress(const StepRow& row) override { curves_.add(row); }
  void end(const Summary& summary) override;

 private:
  std::string folder_, settings_;
  RunCurves curves_;
};

}  // namespace ft
