// log.jsonl: every row of a run, one JSON object per line, for scripts. The other files that grow with a run
// (trainer_state.json, the plot) are made from the same rows, so a resumed run needs only this one.
#pragma once
#include <string>

#include "engine/train/reports/report.h"
#include "engine/train/reports/run_file.h"

namespace ft {

// The training and evaluation rows up to and including `step`. A file that is not there gives none; reading
// stops at the first line that is incomplete, of a later step, or a summary.
History read_log(const std::string& path, std::int64_t step);

class JsonLog final : public Report {
 public:
  explicit JsonLog(std::string path) : path_(std::move(path)) {}

  // A resumed run's file is cut behind the last row that read_log would give; a fresh one begins empty.
  void begin(const RunHeader& header) override;
  void step(const StepRow& row) override;
  void evaluation(const EvalRow& row) override;
  void end(const Summary& summary) override;

 private:
  std::string path_;
  RunFile file_;
};

}  // namespace ft
