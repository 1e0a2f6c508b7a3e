// Adds inputs with labels of a classification to a micro-batch.
#pragma once
#include <optional>

#include "data/rows/dataset.h"
#include "engine/core/batch.h"

namespace ft {

// Adds a row, its labels to Batch::labels. padding: the only target is the sequence's last token that is not
// padding, or its first token if all are. Empty: each token with a class is a target.
void add_classified(Batch&, const Dataset&, std::int64_t sample, std::optional<std::int32_t> padding);

// Adds a sequence without labels. Its targets are the same; padding empty: all tokens.
void add_unlabelled(Batch&, std::span<const std::int32_t> ids, std::optional<std::int32_t> padding);

}  // namespace ft
