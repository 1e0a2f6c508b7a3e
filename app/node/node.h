// The process that ft launch starts through ssh on every other machine: it reads what to run from stdin,
// starts the ranks, and tells what they say and how they end on stdout, in frames. When stdin ends or the
// launcher has not been heard for 15 s, the ranks are killed: nobody outlives the launcher. For ft doctor it
// looks at its machine instead.
#pragma once
#include "engine/core/error.h"

namespace ft {

Exit run_node();

}  // namespace ft
