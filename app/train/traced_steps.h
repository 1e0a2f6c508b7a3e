// ft train --trace: the time of every operation in a few steps. Skips the first step, which touches memory
// and starts threads. Writes the file right after these steps and traces no more, so that the file of a long
// run stays small.
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
  // `notes`: the collectives, recorded by the run's communicator. `bubble`: the part of a step that a
  // pipeline's stage has to wait; 0: there is no pipeline.
  TracedSteps(Ops& ops, CommunicationNotes& notes, std::string file, Screen& screen, double bubble = 0)
      : trace_(ops, {.calls = true}),
        notes_(notes),
        file_(std::move(file)),
        screen_(screen),
        bubble_(bubble) {}

  Ops& ops() { return trace_; }  // the operations that the run must use

  void begin(const RunHeader& header) override { steps_ = header.steps; }
  void progress(const StepRow& row) override;
  void end(const Summary&) override { write(); }  // for a run of fewer steps

 private:
  void write();

  TraceOps trace_;
  CommunicationNotes& notes_;
  std::string file_;
  Screen& screen_;
  double bubble_;
  std::int64_t steps_ = 0, done_ = 0;  // steps of the complete run; of this process
  bool written_ = false;
};

}  // namespace ft
