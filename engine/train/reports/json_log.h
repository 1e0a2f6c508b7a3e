// log.jsonl: every row of a run, one JSON object in a line, for scripts. The other growing files
// (trainer_state.json, the plot) are made from the same rows, so a resumed run needs only this one.
#pragma once
#include <string>

#include "engine/train/reports/report.h"
#include "engine/train/reports/run_file.h"

namespace ft {

// Returns the training and evaluation rows up to and including `step`; none if the file is missing. Reading
// stops at the first line that is incomplete, of a later step, or a summary.
History read_log(const std::string& path, std::int64_t step);

class JsonLog final : public Report {
 public:
  explicit JsonLog(std::string path) : path_(std::move(path)) {}

  // Cuts a resumed run's file after the last row that read_log would return; a new run's file begins empty.
  void begin(const RunHeader& header) override;
  void step(const StepRow& row) override;
  void evaluation(const EvalRow& row) override;
  void sync() override;
  void end(const Summary& summary) override;

 private:
  std::string path_;
  RunFile file_;
};

}  // namespace ft
