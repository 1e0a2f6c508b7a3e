// The contract between data/ and train/. A micro-batch has no batch dimension: its sequences lie one after
// another in `tokens` rows, and `starts` says where each begins. Nothing is computed for padding unless it is
// requested, and packed samples are isolated because each is its own sequence.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace ft {

// What an objective compares, of batches that have such rows: pairs of answers to one prompt (sequence 2 i is
// the chosen one, 2 i + 1 the rejected one), or answers with a label or an advantage (sequence i).
struct Compared {
  std::vector<std::int32_t> first_target;  // (sequences + 1) of the batch's targets, by sequence
  std::vector<std::int32_t> first_answer;  // (sequences) the answer's first; those before are the prompt's
  std::vector<float> value;  // (rows) a pair's margin; 1 or 0: whether an answer is desired; an advantage
  std::vector<std::int64_t> sample;  // (rows) its place in the data
  // (sequences) What was cut from the end of labelled answers; empty: nothing.
  std::vector<std::vector<std::int32_t>> tails;
  // (sequences) log-probabilities under the reference, where they were computed before
  std::vector<double> reference;
  // For rollouts: log-probabilities as the answers were given, NaN where they are not known (targets); how
  // many steps have used them before, and whether others will; and what their rewards show, in the first.
  std::vector<float> old;
  std::int64_t uses = 0;
  bool used_again = false;
  std::vector<double> figures;
  // PPO's (targets): what a token was worth, and of the critic what it said and should have said.
  std::vector<float> advantages, values, returns;

  std::int64_t rows() const { return static_cast<std::int64_t>(value.size()); }
  std::int64_t sequences() const { return static_cast<std::int64_t>(first_answer.size()); }
};

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

  // Sequences that share rows: which rows each is made of, one behind another (whole tokens), and where each
  // begins (whole sequences + 1). A row is in one sequence or in two. Empty: sequences are their own rows.
  std::vector<std::int32_t> whole_rows, whole_starts;

  // For a part of a micro-batch that ranks share (nn/sequence_part.h), whose starts are then the whole one's:
  // the positions of the whole one, which may decide how they are encoded. 0: not a part.
  std::int64_t length = 0;

  Compared compared;  // no rows: nothing is compared

  std::int64_t tokens() const { return static_cast<std::int64_t>(input_ids.size()); }
};

// What decides how much memory a batch takes.
struct BatchShape {
  std::int64_t tokens = 0, targets = 0, sequences = 0;
  std::int64_t longest = 0;                            // tokens of the longest sequence
  std::int64_t source_tokens = 0, longest_source = 0;  // encoder-decoders
  std::int64_t kept = 0, kept_source = 0;              // random-LTD: rows that are left; 0: all
  std::int64_t compared = 0;                           // rows of Compared
  std::int64_t whole = 0;                              // tokens of sequences that share rows; 0: none do

  std::int64_t all_tokens() const { return tokens + source_tokens; }
};
BatchShape shape_of(const Batch&);
// Tokens of the longest of the sequences that begin at these rows.
std::int64_t longest_of(std::span<const std::int32_t> starts);

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
