// A recorded call for the timeline: a computation (trace_ops.h) or a collective.
#pragma once
#include <string>

#include "engine/ops/phases.h"
#include "engine/ops/stamps.h"

namespace ft {

struct TraceCall {
  const char* op;
  std::string where;  // the last label entered
  Phase phase;
  double start;  // on the steady clock
  double seconds, flops, bytes;
};

}  // namespace ft
