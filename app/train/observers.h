// The observers of a training run, as the settings and the command line ask for them.
#pragma once
#include <string>

#include "app/run/run.h"

namespace ft {

// Makes the observers. trace: file for a timeline; empty: none. Throws UserError (config) if both the
// timeline and the profiler would trace the run's operations. The run and the screen must outlive the
// observers.
Observers make_observers(const std::string& trace, const Run&, Screen&);

}  // namespace ft
