// The process that ft launch starts through ssh on each other machine. It reads from stdin what to run,
// starts the ranks, and reports their output and exit codes on stdout, in frames. When stdin ends, or after
// 15 s without a message from the launcher, it kills the ranks, so that no rank outlives the launcher. For ft
// doctor it examines its machine instead.
#pragma once
#include "engine/core/error.h"

namespace ft {

Exit run_node();

}  // namespace ft
