// The files of DeepSpeed's csv_monitor: Train_Samples_train_loss.csv and so on, one for each number, with the
// samples seen so far and its value in each row.
#pragma once
#include <map>
#include <string>

#include "engine/train/reports/report.h"
#include "engine/train/reports/run_file.h"

namespace ft {

class CsvFiles final : public Report {
 public:
  explicit CsvFiles(std::string folder) : folder_(std::move(folder)) {}

  // The files begin again: of a resumed run with the rows that it goes on from.
  void begin(const RunHeader& header) override;
  void step(const StepRow& row) override;
  void evaluation(const EvalRow& row) override;

 private:
  // name: Train/Samples/train_loss
  void add(const std::string& name, std::int64_t step, double value);

  std::string folder_;
  std::int64_t sequences_per_step_ = 0;
  std::map<std::string, RunFile> files_;  // by name
};

}  // namespace ft
