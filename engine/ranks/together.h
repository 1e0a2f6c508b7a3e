// Actions that all ranks complete, or none.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/ranks/communicator.h"

namespace ft {

// 1 for every rank that says yes, else 0, on all ranks.
std::vector<std::uint8_t> asked(Communicator&, bool yes);

// Every rank does its part. When one fails all throw: it what its part threw, the others a
// UserError(Exit::peer_lost) that names it: "rank 2 could not WHAT; its message says why".
void together(Communicator&, const std::string& what, const std::function<void()>& part);

// Rank 0's text, on all ranks.
std::string shared(Communicator&, std::string text);

}  // namespace ft
