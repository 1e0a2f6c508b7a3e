// Writes the newest numbers of a run to a text file for Prometheus' node_exporter (its textfile collector
// reads *.prom of a folder). The file is replaced atomically at every row, so that a reader never sees an
// incomplete one.
#pragma once
#include <optional>
#include <string>

#include "engine/train/reports/report.h"

namespace ft {

class Prometheus final : public Report {
 public:
  explicit Prometheus(std::string path) : path_(std::move(path)) {}

  void begin(const RunHeader& header) override;
  void step(const StepRow& row) override;
  void evaluation(const EvalRow& row) override;
  void end(const Summary& summary) override;

 private:
  void write() const;

  std::string path_;
  RunHeader header_;
  MemoryReport memory_;  // planned; at the end measured
  std::optional<StepRow> step_;
  std::optional<EvalRow> evaluation_;
  bool running_ = false;
};

}  // namespace ft
