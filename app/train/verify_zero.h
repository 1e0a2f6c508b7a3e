// ft verify zero: a few steps of a configuration under every stage and several numbers of ranks, each a run
// of its own, and what the theory says of them: the same losses, a rank's memory, bytes sent.
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
// Exit::mismatch when something is not as it should be.
Exit verify_zero(const VerifyZeroArgs&);

}  // namespace ft
