// Adds texts to embed to a micro-batch: each is a sequence.
#pragma once
#include <span>

#include "data/rows/dataset.h"
#include "engine/core/batch.h"

namespace ft {

// Targets of a text: its last token, or all tokens. The mean of their states is the embedding.
enum class TextTargets : bool { last, all };

// Adds a row: an anchor, its positive and its negatives.
void add_texts(Batch&, const Dataset&, std::int64_t sample, TextTargets);

// Adds one text.
void add_text(Batch&, std::span<const std::int32_t> ids, TextTargets);

// Cuts each text of a sample to `most` tokens.
void cut_texts(Sample&, std::int64_t most, bool keep_end);

// Returns the length of a sample's longest text.
std::int64_t longest_text(const Sample&);

}  // namespace ft
