// Samples of encoder-decoders: a source, which the encoder reads, and a target, which the decoder writes.
#pragma once
#include "data/rows/dataset.h"
#include "engine/core/batch.h"

namespace ft {

// Ids of config.json: what the decoder begins with, what stands for a label that is not trained, and the end.
struct Seq2Seq {
  std::int32_t start = 0, pad = 0, end = 1;
};

// Adds a sample. The decoder reads the target one token later than it writes it, as transformers'
// shift_right does: start, labels[0], ..., labels[T - 2].
void add_pair(Batch& batch, const SampleStore::View& sample, const Seq2Seq& tokens);

// Cuts `ids` to `most` tokens; an end token at its end stays there, as transformers' tokenizers leave it.
void cut_side(std::vector<std::int32_t>& ids, std::int64_t most, bool keep_end, std::int32_t end);

// So many samples of full length: the largest batch there can be.
inline BatchShape full_pairs(std::int64_t samples, std::int64_t source, std::int64_t target) {
  return {.tokens = samples * target,
          .targets = samples * target,
          .sequences = samples,
          .longest = target,
          .source_tokens = samples * source,
          .longest_source = source};
}

}  // namespace ft
