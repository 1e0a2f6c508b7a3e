// An observer of a run: a report that also sees the run's operations, collectives or memory.
#pragma once
#include <memory>
#include <vector>

#include "engine/core/arena.h"
#include "engine/ops/ops.h"
#include "engine/ops/phases.h"
#include "engine/ranks/trace_communicator.h"
#include "engine/train/reports/report.h"

namespace ft {

// The memory of a run that changes while it computes: from phase to phase of a step, and CUDA's own
// (Ops::driver_memory).
struct ChangingMemory {
  const Ops& ops;
  Phases& phases;
  Arena& saved;
  Arena& scratch;
};

class Observer : public Report {
 public:
  // Returns Ops that wrap these; the model then computes through them. Null: it computes through these.
  virtual Ops* around(Ops&) { return nullptr; }
  // Returns an observer of single collectives as they run, except NCCL's; null: none.
  virtual std::shared_ptr<CommunicationObserver> notes() { return nullptr; }
  // Returns an observer that counts all collectives; null: none. With it, the computation waits for each
  // collective between GPUs, and none overlaps with it.
  virtual std::shared_ptr<CommunicationObserver> counts() { return nullptr; }
  // Called when the run has its memory and has computed nothing in it.
  virtual void started(const ChangingMemory&) {}
  // Returns columns for the next row of the log.
  virtual Measures columns() { return {}; }
};

using Observers = std::vector<std::unique_ptr<Observer>>;

}  // namespace ft
