// Writes the files of DeepSpeed's csv_monitor: Train_Samples_train_loss.csv and so on, one for each number. A
// row has the samples seen so far and the number.
#pragma once
#include <map>
#include <string>

#include "engine/train/reports/report.h"
#include "engine/train/reports/run_file.h"

namespace ft {

class CsvFiles final : public Report {
 public:
  // The files are below folder/job, where no part of `job` may be a symbolic link.
  explicit CsvFiles(std::string folder, std::string job = "")
      : folder_(std::move(folder)), job_(std::move(job)) {}

  // Begins the files again; a resumed run's files begin with its earlier rows.
  void begin(const RunHeader& header) override;
  void step(const StepRow& row) override;
  void evaluation(const EvalRow& row) override;

 private:
  // name: such as Train/Samples/train_loss
  void add(const std::string& name, std::int64_t step, double value);

  std::string folder_, job_;
  std::int64_t sequences_per_step_ = 0;
  std::map<std::string, RunFile> files_;  // by name
};

}  // namespace ft
