// run_facts.json: facts of a run that only the running program knows, for pages about it.
#pragma once
#include <string>

#include "app/report/run_page.h"
#include "engine/train/reports/report.h"

namespace ft {

class RunFacts final : public Report {
 public:
  explicit RunFacts(std::string path) : path_(std::move(path)) {}
  void begin(const RunHeader&) override;

 private:
  std::string path_;
};

// Reads the file of a run's folder into a page. A folder without the file, of an older version, has no facts.
void read_run_facts(const std::string& folder, RunPage&);

}  // namespace ft
