// ft data show: prints the samples that a configuration trains on, as the model sees them.
#pragma once
#include <cstdint>
#include <optional>

#include "app/config/args.h"
#include "engine/core/error.h"

namespace ft {

struct DataShowArgs : ConfigArgs {
  bool json = false;
  std::optional<std::int64_t> limit;  // number of samples
};
Exit data_show(const DataShowArgs&);

}  // namespace ft
