// The header of a training run: its settings, sizes and machine, for every report.
#pragma once
#include <string>

#include "app/run/run.h"
#include "engine/train/reports/report.h"

namespace ft {

// Plans the run and returns its header. `file`: path of the configuration, as the user wrote it.
RunHeader run_header(const std::string& file, Run&);

}  // namespace ft
