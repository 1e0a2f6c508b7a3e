// A call that was noted for the timeline: of a computation (trace_ops.h) or of a collective.
#pragma once
#include <string>

#include "engine/ops/phases.h"
#include "engine/ops/stamps.h"

namespace ft {

struct TraceCall {
  const char* op;
  std::string where;  // the label that was last entered
  Phase phase;
  double start;  // of the steady clock
  double seconds, flops, bytes;
};

}  // namespace ft
