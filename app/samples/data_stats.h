// ft data stats: prints the lengths of a run's samples, and the cost of each length limit.
#pragma once
#include "app/config/args.h"
#include "engine/core/error.h"

namespace ft {

struct DataStatsArgs : ConfigArgs {
  bool json = false;
};
Exit data_stats(const DataStatsArgs&);

}  // namespace ft
