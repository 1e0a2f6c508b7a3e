// Samples: token ids with labels, and the place of each in its file. They lie one after another in one store,
// which the training and the held-out part share; a Dataset is a list of places in it.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/core/words.h"
#include "engine/files/json.h"

namespace ft {

inline constexpr std::int32_t kIgnored = -100;  // the label of a token that is not trained, as in PyTorch

// What became of a conversation's messages that were to be trained. Messages are counted from 1.
struct TrainedTurns {
  std::int32_t turns = 0, closed = 0;    // found in the text; those whose end token is trained too
  std::vector<std::int32_t> lost{};      // not found in the text
  std::vector<std::int32_t> unopened{};  // that do not begin with the template's generation prompt
  std::string nothing{};                 // the reason why nothing is trained; "": something is
};

// How a row's prompt was written for the model: the text alone, in Stanford's words, or by a chat template.
enum class Written : std::uint8_t { unknown, plain, alpaca, chat };
constexpr auto words(Written) {
  using enum Written;
  return to_words<Written>({{plain, "plain"}, {alpaca, "alpaca"}, {chat, "chat"}});
}

// What a row is: an example to learn, a prompt with a better and a worse answer, an answer and whether it is
// desired, an answer that a policy gave and what it was rewarded with, or a prompt alone, to be answered.
enum class RowKind : std::uint8_t { example, pair, labelled, rollout, prompt };

// What the run's objective wants of a row.
struct WantedRows {
  RowKind kind = RowKind::example;
  std::string objective = "sft";  // in errors
  bool cut = true;                // answers that are too long are cut; false: their row is left out
  std::int64_t answer = 0;        // tokens that a prompt leaves room for
};

struct Sample {
  std::vector<std::int32_t> input_ids;  // (T)
  std::vector<std::int32_t> labels;     // (T) the token itself, or kIgnored; labels[0] is never a target.
                                        // Encoder-decoders: the target, of another length; all are targets
  TrainedTurns turns{};
  Written written = Written::unknown;
  bool begins_twice = false;  // with the token that the tokenizer puts first, and that the text has too
  // In a pair the above are the chosen answer's, these the rejected one's. Labels of answers are kIgnored in
  // the prompt and, of labelled answers, in what is cut from their end.
  std::vector<std::int32_t> rejected_ids{}, rejected_labels{};
  float value = 0;  // a pair's margin; 1 or 0: whether an answer is desired; a rollout's reward
  std::vector<float> old_logps{};  // of a rollout's answer's tokens; empty: not known
  std::string row{};               // of a prompt: all of its row, as JSON
};

// Grows at its end; what is in it does not change.
class SampleStore {
 public:
  struct View {
    std::span<const std::int32_t> input_ids, labels;  // (T), of encoder-decoders (S) and (T)
  };
  explicit SampleStore(bool seq2seq = false, RowKind kind = RowKind::example)
      : seq2seq_(seq2seq), kind_(kind) {}
  RowKind kind() const { return kind_; }
  bool seq2seq() const { return seq2seq_; }  // sources and targets of an encoder-decoder

  // From here on samples come from this file, whose name is printed as the user wrote it.
  void start_file(std::string name) { files_.push_back(std::move(name)); }
  void add(const Sample& sample, std::int64_t line);

  // What it holds as arrays, to be kept in a file and made again from it.
  struct Arrays {
    std::vector<std::int32_t> lengths;        // (sequences) tokens; a pair has two
    std::vector<std::int32_t> label_lengths;  // (sequences) the same of labels, of encoder-decoders only
    std::vector<std::int32_t> lines, file;    // (samples) where each came from
    std::vector<std::int32_t> values;         // the bits of samples' values, where rows are compared
    std::vector<std::int32_t> value_counts;   // (samples) of rollouts: how many of them
  };
  SampleStore(bool seq2seq, RowKind kind, std::vector<std::int32_t> ids, std::vector<std::int32_t> labels,
              const Arrays& arrays, std::vector<std::string> files);
  Arrays arrays() const;
  const std::vector<std::int32_t>& ids() const { return ids_; }  // of all samples
  const std::vector<std::int32_t>& labels() const { return labels_; }
  const std::vector<std::string>& files() const { return files_; }

  std::int64_t size() const { return static_cast<std::int64_t>(lines_.size()); }
  View operator[](std::int64_t i) const;  // of a pair the chosen
  View rejected(std::int64_t i) const { return sequence(i * sequences_each() + 1); }
  float value(std::int64_t i) const { return values(i).front(); }
  std::span<const float> old_logps(std::int64_t i) const { return values(i).subspan(1); }       // of rollouts
  const std::string& row(std::int64_t i) const { return texts_[static_cast<std::size_t>(i)]; }  // of prompts
  // What was cut from the end of a labelled answer, for which other prompts may have room.
  std::span<const std::int32_t> tail(std::int64_t i) const;
  std::string source(std::int64_t i) const;  // train.jsonl:18

 private:
  std::int64_t sequences_each() const { return kind_ == RowKind::pair ? 2 : 1; }
  View sequence(std::int64_t i) const;
  std::span<const float> values(std::int64_t i) const;
  void add(const std::vector<std::int32_t>& ids, const std::vector<std::int32_t>& labels);

  std::vector<std::int32_t> ids_, labels_;  // (all tokens)
  bool seq2seq_;
  RowKind kind_;
  std::vector<std::int64_t> ends_;        // (sequences) one past the last token of each
  std::vector<std::int64_t> label_ends_;  // the same of labels, of encoder-decoders only
  std::vector<float> values_;             // (samples), where rows are compared; before old_logps of rollouts
  std::vector<std::int64_t> value_ends_;  // (samples), of rollouts only
  std::vector<std::string> texts_;        // (samples), of prompts only
  std::vector<std::int32_t> lines_;       // (samples)
  std::vector<std::int32_t> file_;        // (samples)
  std::vector<std::string> files_;
};

class Dataset {
 public:
  Dataset() = default;
  // The samples `rows` of `store`, in that order; a sample may occur several times.
  Dataset(std::shared_ptr<const SampleStore> store, std::vector<std::int64_t> rows);

  std::int64_t size() const { return static_cast<std::int64_t>(rows_.size()); }
  SampleStore::View operator[](std::int64_t i) const { return (*store_)[row(i)]; }
  SampleStore::View rejected(std::int64_t i) const { return store_->rejected(row(i)); }
  std::span<const std::int32_t> tail(std::int64_t i) const { return store_->tail(row(i)); }
  float value(std::int64_t i) const { return store_->value(row(i)); }
  std::span<const float> old_logps(std::int64_t i) const { return store_->old_logps(row(i)); }
  Json prompt_row(std::int64_t i) const;  // as its file has it, with null for NaN and infinities
  RowKind kind() const { return store_ ? store_->kind() : RowKind::example; }
  std::string source(std::int64_t i) const { return store_->source(row(i)); }

  bool seq2seq() const { return store_ && store_->seq2seq(); }

  std::int64_t tokens() const { return tokens_; }        // of sources and targets
  std::int64_t targets() const { return targets_; }      // tokens that are predicted and counted in the loss
  std::int64_t longest() const { return longest_; }      // tokens of the longest sample, or source
  std::int64_t untrained() const { return untrained_; }  // samples without any target

 private:
  std::int64_t row(std::int64_t i) const { return rows_[static_cast<std::size_t>(i)]; }

  std::shared_ptr<const SampleStore> store_;  // shared: the training and the held-out part have one store
  std::vector<std::int64_t> rows_;
  std::int64_t tokens_ = 0, targets_ = 0, longest_ = 0, untrained_ = 0;
};

// Labels that are trained; of all but encoder-decoders the first is never.
std::int64_t count_targets(std::span<const std::int32_t> labels, bool seq2seq = false);

}  // namespace ft
