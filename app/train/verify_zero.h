// ft verify zero: runs a few steps of a configuration under every stage and with several numbers of ranks,
// each as a separate run. Compares the losses with each other, and a rank's memory and sent bytes with the
// formulas.
#pragma once
#include <cstdint>
#include <vector>

#include "app/config/args.h"
#include "engine/core/error.h"

namespace ft {

struct VerifyZeroArgs : ConfigArgs {
  std::vector<int> ranks{1, 2};
  std::int64_t steps = 3;
};
// Returns Exit::mismatch if a value is not as expected.
Exit verify_zero(const VerifyZeroArgs&);

}  // namespace ft
