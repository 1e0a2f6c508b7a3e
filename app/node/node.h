// The process that ft launch starts through ssh on every other machine. It reads what to run from stdin,
// starts the ranks, and reports their output and exit codes on stdout, in frames. When stdin ends or the
// launcher has been silent for 15 s, it kills the ranks, so that none outlives the launcher. For ft doctor it
// examines its machine instead.
#pragma once
#include "engine/core/error.h"

namespace ft {

Exit run_node();

}  // namespace ft
