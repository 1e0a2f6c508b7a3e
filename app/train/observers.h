// The observers of a training run, as the settings and the command line ask for them.
#pragma once
#include <string>

#include "app/run/run.h"

namespace ft {

// trace: file for a timeline; empty: none. Throws UserError (config) if the run's operations would be traced
// twice. The run and the screen outlive the observers.
Observers make_observers(const std::string& trace, const Run&, Screen&);

}  // namespace ft
