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

// The memory of a run that changes from phase to phase of a step.
struct ChangingMemory {
  Phases& phases;
  Arena& saved;
  Arena& scratch;
};

class Observer : public Report {
 public:
  // Returns operations around these, through which the model computes; null: it computes through these.
  virtual Ops* around(Ops&) { return nullptr; }
  // Takes notes of collectives as they run, but not of NCCL's; null: none.
  virtual std::shared_ptr<CommunicationObserver> notes() { return nullptr; }
  // Counts all collectives. Between GPUs each is waited for, and none runs beside the computation. Null:
  // nothing is counted.
  virtual std::shared_ptr<CommunicationObserver> counts() { return nullptr; }
  // The run has its memory, and has computed nothing in it.
  virtual void started(const ChangingMemory&) {}
  // Returns columns for the next row of the log.
  virtual Measures columns() { return {}; }
};

using Observers = std::vector<std::unique_ptr<Observer>>;

}  // namespace ft
