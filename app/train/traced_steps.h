// ft train --trace: the time of every operation in a few steps after the first, which touches memory and
// wakes threads. It is written as soon as these are over, and the rest of the run is not traced: so the file
// of a long run stays small enough to look at, and no notes pile up.
#pragma once
#include <cstdint>
#include <string>
#include <utility>

#include "app/screen/screen.h"
#include "engine/ops/trace_ops.h"
#include "engine/ranks/trace_communicator.h"
#include "engine/train/reports/report.h"

namespace ft {

class TracedSteps final : public Report {
 public:
  // notes: of the collectives, by the run's communicator. bubble: the part of a step that a pipeline's stage
  // has to wait; 0: there is no pipeline.
  TracedSteps(Ops& ops, CommunicationNotes& notes, std::string file, Screen& screen, double bubble = 0)
      : trace_(ops, {.calls = true}),
        notes_(notes),
        file_(std::move(file)),
        screen_(screen),
        bubble_(bubble) {}

  Ops& ops() { return trace_; }  // what the run must use

  void begin(const RunHeader& header) override { steps_ = header.steps; }
  void progress(const StepRow& row) override;
  void end(const Summary&) override { write(); }  // of a run that was shorter

 private:
  void write();

  TraceOps trace_;
  CommunicationNotes& notes_;
  std::string file_;
  Screen& screen_;
  double bubble_;
  std::int64_t steps_ = 0, done_ = 0;  // of the whole run; of this process
  bool written_ = false;
};

}  // namespace ft
