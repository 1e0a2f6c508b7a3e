// The part of a micro-batch that a rank computes, where ranks share its rows.
#pragma once
#include <optional>

#include "engine/core/batch.h"
#include "engine/pass/context.h"

namespace ft {

// Sequence parallelism: returns this rank's rows, and sets c.numbers to the numbers of these rows. Row
// shards: returns all rows, filled up so that every rank gets equally many. Neither: returns nothing, because
// this rank computes the batch as it is.
std::optional<Batch> part_of_rank(Ctx&, const Batch& whole);

}  // namespace ft
