// trainer_state.json as transformers' Trainer writes it, for tools that read its log_history and its best
// checkpoint. Written in full into every checkpoint, next to it, and at the end.
#pragma once
#include <optional>
#include <string>

#include "engine/train/reports/report.h"

namespace ft {

class TrainerState final : public Report {
 public:
  explicit TrainerState(std::string path) : path_(std::move(path)) {}

  void begin(const RunHeader& header) override;
  void step(const StepRow& row) override;
  void evaluation(const EvalRow& row) override;
  void saving(std::int64_t step, const std::filesystem::path& folder) override;
  void saved(std::int64_t step, double seconds, const std::filesystem::path& path) override;
  void end(const Summary& summary) override;

 private:
  double metric(const EvalRow& row) const;
  void write_checkpointed(std::int64_t step, const std::string& to);
  // The checkpoint of `saving`, if it is one, has no name yet.
  void write(const Summary& now, bool ended, const std::string& to, std::int64_t saving) const;
  bool is_there(std::int64_t step) const;  // a checkpoint

  std::string path_;
  RunHeader header_;
  History rows_;  // of the whole run, the resumed part too
  std::optional<EvalRow> best_;
  std::int64_t best_saved_ = 0;  // the step of the best checkpoint; 0: none
};

}  // namespace ft
