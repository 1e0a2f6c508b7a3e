// Actions that either all ranks complete or none.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/ranks/communicator.h"

namespace ft {

// Returns, on all ranks, 1 for every rank that said yes, else 0.
std::vector<std::uint8_t> asked(Communicator&, bool yes);

// Runs each rank's part. If one fails, all throw: the failed rank its own exception, the others a UserError
// (peer_lost) that names it: "rank 2 could not WHAT; its message says why".
void together(Communicator&, const std::string& what, const std::function<void()>& part);

// Returns rank 0's text on all ranks.
std::string shared(Communicator&, std::string text);

}  // namespace ft
