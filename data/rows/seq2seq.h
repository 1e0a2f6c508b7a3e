// Samples of encoder-decoders: a source for the encoder, and a target that the decoder writes.
#pragma once
#include "data/rows/dataset.h"
#include "engine/core/batch.h"

namespace ft {

// Ids of config.json: the decoder's first token, the token in place of untrained labels, and the end.
struct Seq2Seq {
  std::int32_t start = 0, pad = 0, end = 1;
};

// Adds a sample. The decoder reads the target one token later than it writes it, as transformers' shift_right
// does: start, labels[0], ..., labels[T - 2].
void add_pair(Batch& batch, const SampleStore::View& sample, const Seq2Seq& tokens);

// Cuts `ids` to `most` tokens, but keeps an end token at the end, as transformers' tokenizers do.
void cut_side(std::vector<std::int32_t>& ids, std::int64_t most, bool keep_end, std::int32_t end);

// Returns the shape of `samples` samples of full length, the largest possible batch.
inline BatchShape full_pairs(std::int64_t samples, std::int64_t source, std::int64_t target) {
  return {.tokens = samples * target,
          .targets = samples * target,
          .sequences = samples,
          .longest = target,
          .source_tokens = samples * source,
          .longest_source = source};
}

}  // namespace ft
