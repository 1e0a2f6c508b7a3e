// A call that was noted for the timeline: of a computation (trace_ops.h) or of a collective.
#pragma once
#include <chrono>
#include <string>

#include "engine/ops/phases.h"

namespace ft {

// Time of the steady clock.
inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct TraceCall {
  const char* op;
  std::string where;  // the label that was last entered
  Phase phase;
  double start;  // of the steady clock
  double seconds, flops, bytes;
};

}  // namespace ft
