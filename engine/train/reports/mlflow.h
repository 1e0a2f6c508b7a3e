// Writes MLflow's file store: mlruns/EXPERIMENT/RUN/ with meta.yaml and a file for each parameter, tag and
// metric, so that `mlflow ui --backend-store-uri` shows the run. Metrics have their names in log.jsonl.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "engine/files/file.h"
#include "engine/train/reports/report.h"
#include "engine/train/reports/run_file.h"

namespace ft {

class Mlflow final : public Report {
 public:
  // The store is `folder`/mlruns, which may not be a symbolic link.
  Mlflow(std::string folder, std::string experiment)
      : folder_(std::move(folder)),
        store_(join_path(folder_, "mlruns")),
        experiment_(std::move(experiment)) {}

  // A resumed run keeps its id; its metrics begin with the earlier rows.
  void begin(const RunHeader& header) override;
  void step(const StepRow& row) override;
  void evaluation(const EvalRow& row) override;
  void end(const Summary& summary) override;

 private:
  enum Status { kRunning = 1, kFinished = 3, kKilled = 5 };  // MLflow's numbers

  std::string find_experiment() const;                    // its id; created if missing
  std::string find_run(const std::string& output) const;  // of this output folder; empty: none
  void write_meta(Status status) const;
  void put(const std::string& name, const std::string& text) const;  // a file of the store
  void log(std::int64_t step, const Measures& numbers);

  std::string folder_, store_, experiment_;
  std::string experiment_id_, run_id_, run_;  // run_: the run's folder below the store
  std::string name_;
  std::int64_t started_ = 0;              // milliseconds since 1970
  std::map<std::string, RunFile> files_;  // by metric
};

}  // namespace ft
