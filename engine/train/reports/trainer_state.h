// Writes trainer_state.json like transformers' Trainer, for tools that read its log_history and its best
// checkpoint. It is written in full into every checkpoint, into the output folder, and at the end.
#pragma once
#include <string>
#include <vector>

#include "engine/train/reports/report.h"

namespace ft {

class TrainerState final : public Report {
 public:
  explicit TrainerState(std::string path) : path_(std::move(path)) {}

  void begin(const RunHeader& header) override;
  void step(const StepRow& row) override;
  void evaluation(const EvalRow& row) override;
  void saving(std::int64_t step, const std::filesystem::path& folder) override;
  void saved(const SavedRow& row) override;
  void end(const Summary& summary) override;

 private:
  double metric(const EvalRow& row) const;
  const EvalRow* best_at(std::int64_t step) const;  // the best evaluation up to a step; null: there is none
  void write_checkpointed(std::int64_t step, const std::string& to);
  // rows: up to the step of `now`. `saving`: step of a checkpoint that is being written and has no name yet;
  // 0: none.
  void write(const Summary& now, const History& rows, bool ended, const std::string& to,
             std::int64_t saving) const;
  bool is_there(std::int64_t step) const;  // a checkpoint of this step exists

  std::string path_;
  RunHeader header_;
  History rows_;                 // of the complete run, with the rows before resuming
  std::vector<EvalRow> best_;    // evaluations that were the best so far, in the order they were made
  std::int64_t best_saved_ = 0;  // step of the best checkpoint; 0: none
};

}  // namespace ft
