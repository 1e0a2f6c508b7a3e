// Adds inputs with labels of a classification to a micro-batch.
#pragma once
#include <optional>

#include "data/rows/dataset.h"
#include "engine/core/batch.h"

namespace ft {

// Adds a row. padding: the only target is the sequence's last other token, whose labels are Batch::labels;
// its first token if all are padding. Empty: each token with a class is a target.
void add_classified(Batch&, const Dataset&, std::int64_t sample, std::optional<std::int32_t> padding);

// Adds a sequence without labels, with the same targets; of tokens: all are targets.
void add_unlabelled(Batch&, std::span<const std::int32_t> ids, std::optional<std::int32_t> padding);

}  // namespace ft
