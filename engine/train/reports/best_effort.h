// Files of a run that it can do without: logs, trackers' files, plots. If one cannot be written during the
// run, a warning says so once, the run goes on, and at its end the lost rows are counted. Checkpoints and
// results are not among them.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "engine/train/reports/report.h"

namespace ft {

// Counts the rows that could not be written.
class LostRows {
 public:
  // `warned` hears of them, and outlives this object.
  explicit LostRows(Report& warned) : warned_(warned) {}
  // Calls `write`. If it throws UserError (storage), the row is lost.
  void attempt(const std::function<void()>& write);
  // Warns of the number of rows lost, if any, with the reason of the first.
  void tell() const;

 private:
  Report& warned_;
  std::int64_t lost_ = 0;
  std::string reason_;
};

// A report whose rows may be lost. Errors of begin(), before the first step, and of saving(), which writes
// into a checkpoint, are passed on.
class BestEffort final : public Report {
 public:
  BestEffort(std::unique_ptr<Report> files, Report& warned) : files_(std::move(files)), rows_(warned) {}

  void begin(const RunHeader& header) override { files_->begin(header); }
  void step(const StepRow& row) override {
    rows_.attempt([&] { files_->step(row); });
  }
  void progress(const StepRow& row) override {
    rows_.attempt([&] { files_->progress(row); });
  }
  void evaluation(const EvalRow& row) override {
    rows_.attempt([&] { files_->evaluation(row); });
  }
  void sync() override {
    rows_.attempt([&] { files_->sync(); });
  }
  void saving(std::int64_t step, const std::filesystem::path& folder) override {
    files_->saving(step, folder);
  }
  void saved(const SavedRow& row) override {
    rows_.attempt([&] { files_->saved(row); });
  }
  void end(const Summary& summary) override {
    rows_.attempt([&] { files_->end(summary); });
    rows_.tell();
  }

 private:
  std::unique_ptr<Report> files_;
  LostRows rows_;
};

}  // namespace ft
