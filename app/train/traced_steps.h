// ft train --trace: the time of every operation in a few steps. Skips the first step, which touches memory
// and starts threads. Writes the file right after these steps and traces no more, so that the file of a long
// run stays small.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "app/run/observer.h"
#include "app/screen/screen.h"
#include "engine/ops/trace_ops.h"

namespace ft {

class TracedSteps final : public Observer {
 public:
  // bubble: the part of a step that a pipeline's stage has to wait; 0: there is no pipeline.
  TracedSteps(std::string file, Screen& screen, double bubble = 0)
      : file_(std::move(file)), screen_(screen), bubble_(bubble) {}

  Ops* around(Ops& ops) override { return &trace_.emplace(ops, TraceWhat{.calls = true}); }
  std::shared_ptr<CommunicationObserver> notes() override { return notes_; }

  void begin(const RunHeader& header) override { steps_ = header.steps; }
  void progress(const StepRow& row) override;
  void end(const Summary&) override { write(); }  // for a run of fewer steps

 private:
  void write();

  std::optional<TraceOps> trace_;
  std::shared_ptr<CommunicationNotes> notes_ = std::make_shared<CommunicationNotes>();
  std::string file_;
  Screen& screen_;
  double bubble_;
  std::int64_t steps_ = 0, done_ = 0;  // steps of the complete run; of this process
  bool written_ = false;
};

}  // namespace ft
