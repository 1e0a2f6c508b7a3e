// The contract between data/ and train/. A micro-batch has no batch dimension: its sequences lie one after
// another in `tokens` rows, and `starts` holds the first row of each. Padding costs nothing unless it is
// requested. Packed samples do not see each other because each is its own sequence.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace ft {

// The rows that an objective compares, in batches that have them. A row is a pair of answers to one prompt
// (sequence 2 i is the chosen answer, 2 i + 1 the rejected one), or one answer with a label or an advantage
// (sequence i).
struct Compared {
  std::vector<std::int32_t> first_target;  // (sequences + 1) index of each sequence's first target
  std::vector<std::int32_t> first_answer;  // (sequences) the answer's first target; those before are the
                                           // prompt's
  std::vector<float> value;  // (rows) a pair's margin; an answer's label (1: desired, 0: not); an advantage
  std::vector<std::int64_t> sample;  // (rows) index in the data
  // (sequences) Tokens cut from the end of labelled answers. Empty: nothing was cut.
  std::vector<std::vector<std::int32_t>> tails;
  // (sequences) log-probabilities under the reference model, if they were computed beforehand
  std::vector<double> reference;
  // Rollouts. old (targets): log-probabilities when the answers were generated, NaN if unknown. uses: steps
  // that have used these rows before. used_again: a later step will use them. figures: statistics of the
  // rewards, empty after the first use.
  std::vector<float> old;
  std::int64_t uses = 0;
  bool used_again = false;
  std::vector<double> figures;
  // Rollouts of another program, (targets): importance weights of their losses. Empty: all are 1.
  std::vector<float> weights;
  // Texts to embed, (rows + 1): the index of each row's first sequence, its anchor. The positive and the
  // negatives follow it.
  std::vector<std::int32_t> first_text;
  // PPO, (targets): a token's advantage, the critic's value, and the return that the value should have been.
  std::vector<float> advantages, values, returns;

  std::int64_t rows() const { return static_cast<std::int64_t>(value.size()); }
  std::int64_t sequences() const { return static_cast<std::int64_t>(first_answer.size()); }
};

struct Batch {
  std::vector<std::int32_t> input_ids;    // (tokens)
  std::vector<std::int32_t> positions;    // (tokens) 0, 1, ... in each sequence
  std::vector<std::int32_t> starts;       // (sequences + 1) first row of each sequence; the last is `tokens`
  std::vector<std::int32_t> target_rows;  // (targets) rows whose next token is trained, ascending
  std::vector<std::int32_t> targets;      // (targets) the id of that next token
  // Encoder-decoders: the encoder's tokens. All fields above are then the decoder's.
  std::vector<std::int32_t> source_ids;     // (source tokens)
  std::vector<std::int32_t> source_starts;  // (sequences + 1)
  // Random-LTD: starts and source_starts counted in the rows that remain where blocks drop tokens. Empty: no
  // rows are dropped.
  std::vector<std::int32_t> kept_starts, kept_source_starts;

  // Sequences that share rows. whole_rows: the rows of each sequence, one sequence after another
  // (whole_starts.back() rows). whole_starts: the index in whole_rows where each sequence begins, and the end
  // (sequences + 1). A row is in one sequence or in two. Empty: no rows are shared.
  std::vector<std::int32_t> whole_rows, whole_starts;

  // For one rank's part of a micro-batch (parallel/sequence_part.h): the number of positions in the complete
  // micro-batch, which may decide how positions are encoded. `starts` is then the complete micro-batch's. 0:
  // not a part.
  std::int64_t length = 0;

  // (sequences) The number, in the settings, of the dataset that each comes from; empty: not asked for.
  std::vector<std::int32_t> dataset_of;

  // Classifications: each target's label, one after another: a class, or a number for each label.
  std::vector<float> labels;

  Compared compared;  // without rows: nothing is compared

  std::int64_t tokens() const { return static_cast<std::int64_t>(input_ids.size()); }
};

// The sizes that decide how much memory a batch takes.
struct BatchShape {
  std::int64_t tokens = 0, targets = 0, sequences = 0;
  std::int64_t longest = 0;                            // tokens of the longest sequence
  std::int64_t source_tokens = 0, longest_source = 0;  // encoder-decoders
  std::int64_t kept = 0, kept_source = 0;              // random-LTD: rows that remain; 0: all
  std::int64_t compared = 0;                           // rows of Compared
  std::int64_t whole = 0;                              // tokens of sequences that share rows; 0: none share

  std::int64_t all_tokens() const { return tokens + source_tokens; }
  bool operator==(const BatchShape&) const = default;
};
BatchShape shape_of(const Batch&);
// Tokens of the longest sequence. starts: the first row of each sequence, and the end.
std::int64_t longest_of(std::span<const std::int32_t> starts);

// A dataset cut into micro-batches. A batch depends only on the epoch and the index, so that resuming needs
// no saved state. The caller splits the batches among ranks.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // Micro-batches in one pass of the data; the same for every epoch.
  virtual std::int64_t batches_per_epoch() const = 0;
  // The i-th micro-batch of an epoch; 0 <= i < batches_per_epoch().
  virtual Batch batch(std::int64_t epoch, std::int64_t i) const = 0;
  // Returns the batch's shape without building the batch.
  virtual BatchShape shape(std::int64_t epoch, std::int64_t i) const = 0;
};

}  // namespace ft
