// The contract between data/ and train/. A micro-batch has no batch dimension: its sequences lie one after
// another in `tokens` rows, and `starts` says where each begins. Nothing is computed for padding unless it is
// requested, and packed samples are isolated because each is its own sequence.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace ft {

struct Batch {
  std::vector<std::int32_t> input_ids;    // (tokens)
  std::vector<std::int32_t> positions;    // (tokens) 0, 1, ... in each sequence
  std::vector<std::int32_t> starts;       // (sequences + 1) first row of each sequence; the last is `tokens`
  std::vector<std::int32_t> target_rows;  // (targets) rows whose next token is trained, ascending
  std::vector<std::int32_t> targets;      // (targets) that next token
  // Encoder-decoders: what the encoder reads; all of the above is then the decoder's.
  std::vector<std::int32_t> source_ids;     // (source tokens)
  std::vector<std::int32_t> source_starts;  // (sequences + 1)
  // Random-LTD: as starts and source_starts, of the rows that are left where blocks drop tokens; empty: all
  // are.
  std::vector<std::int32_t> kept_starts, kept_source_starts;

  std::int64_t tokens() const { return static_cast<std::int64_t>(input_ids.size()); }
};

// What decides how much memory a batch takes.
struct BatchShape {
  std::int64_t tokens = 0, targets = 0, sequences = 0;
  std::int64_t longest = 0;                            // tokens of the longest sequence
  std::int64_t source_tokens = 0, longest_source = 0;  // encoder-decoders
  std::int64_t kept = 0, kept_source = 0;              // random-LTD: rows that are left; 0: all

  std::int64_t all_tokens() const { return tokens + source_tokens; }
};

// A dataset cut into micro-batches. Everything is a function of the epoch and the index, so that nothing has
// to be saved to resume. Ranks take their share in the caller.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // Micro-batches in one pass of the data; the same for every epoch.
  virtual std::int64_t batches_per_epoch() const = 0;
  // The i-th micro-batch of an epoch; 0 <= i < batches_per_epoch().
  virtual Batch batch(std::int64_t epoch, std::int64_t i) const = 0;
  // Its shape, without making it.
  virtual BatchShape shape(std::int64_t epoch, std::int64_t i) const = 0;
};

}  // namespace ft
