// ft data stats: how long the samples of a run are, and what each limit of their lengths would cost.
#pragma once
#include "app/config/args.h"
#include "engine/core/error.h"

namespace ft {

struct DataStatsArgs : ConfigArgs {
  bool json = false;
};
Exit data_stats(const DataStatsArgs&);

}  // namespace ft
