// Samples: token ids with labels, and the place of each in its file. All samples are stored one after another
// in one store, which the training and the held-out part share; a Dataset is a list of indices into it.
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

// Results of training a conversation's wanted messages. Messages are counted from 1.
struct TrainedTurns {
  std::int32_t turns = 0, closed = 0;    // found in the text; those whose end token is trained too
  std::vector<std::int32_t> lost{};      // not found in the text
  std::vector<std::int32_t> unopened{};  // without the template's generation prompt at the beginning
  std::string nothing{};                 // reason why nothing is trained; "": something is
};

// Form of a row's prompt: the text alone, in Stanford's words, or by a chat template.
enum class Written : std::uint8_t { unknown, plain, alpaca, chat };
constexpr auto words(Written) {
  using enum Written;
  return to_words<Written>({{plain, "plain"}, {alpaca, "alpaca"}, {chat, "chat"}});
}

// Kind of a row: an example to learn; a prompt with a better and a worse answer; an answer and whether it is
// desired; a policy's answer and its reward; a prompt alone, to be answered; an input with a label of a
// classification; or an anchor with texts that belong to it or do not.
enum class RowKind : std::uint8_t { example, pair, labelled, rollout, prompt, classified, texts };

// Labels of a classification. A row has one class; or a number from 0 to 1 for each label; or any number for
// each label.
enum class LabelKind : std::uint8_t { one_class, several, numbers };
struct WantedLabels {
  std::vector<std::string> names{};  // of the labels, in the order of their ids
  LabelKind kind = LabelKind::one_class;
  bool of_tokens = false;  // each token has a class, or kIgnored
};

// Rows that the run's objective needs.
struct WantedRows {
  RowKind kind = RowKind::example;
  std::string objective = "sft";  // in errors
  bool cut = true;                // answers that are too long are cut; false: their row is skipped
  std::int64_t answer = 0;        // tokens that a prompt must leave free
  WantedLabels labels{};
};

struct Sample {
  std::vector<std::int32_t> input_ids;  // (T)
  // (T) the token itself, or kIgnored; labels[0] is never a target. Encoder-decoders: the target, of another
  // length, all trained.
  std::vector<std::int32_t> labels;
  TrainedTurns turns{};
  Written written = Written::unknown;
  bool begins_twice = false;  // the tokenizer adds a first token that the text has already
  // In a pair the fields above hold the chosen answer, these the rejected one. Labels of answers are kIgnored
  // in the prompt, and in labelled answers also in the part that is cut from the end.
  std::vector<std::int32_t> rejected_ids{}, rejected_labels{};
  float value = 0;  // a pair's margin; 1 or 0: the answer is desired or not; a rollout's reward
  std::vector<float> old_logps{};  // by token of a rollout's answer; empty: not known
  std::string row{};               // a prompt's complete row, as JSON
  // A classification's label: a class, or a number for each label. Empty where tokens have classes, which
  // `labels` then holds. In texts, `labels` holds the number of a token's text: 0, the anchor, 1, ...
  std::vector<float> classes{};
};

// Grows at its end; stored samples do not change.
class SampleStore {
 public:
  struct View {
    std::span<const std::int32_t> input_ids, labels;  // (T), encoder-decoders: (S) and (T)
  };
  explicit SampleStore(bool seq2seq = false, RowKind kind = RowKind::example)
      : seq2seq_(seq2seq), kind_(kind) {}
  RowKind kind() const { return kind_; }
  bool seq2seq() const { return seq2seq_; }  // holds sources and targets of an encoder-decoder

  // The samples added after this call come from this file. Its name is printed as the user wrote it.
  void start_file(std::string name) { files_.push_back(std::move(name)); }
  void add(const Sample& sample, std::int64_t line);

  // The store's contents as arrays, from which it can be rebuilt; they are saved in a file.
  struct Arrays {
    std::vector<std::int32_t> lengths;        // by sequence: tokens; a pair has two sequences
    std::vector<std::int32_t> label_lengths;  // by sequence: number of labels, encoder-decoders only
    std::vector<std::int32_t> lines, file;    // by sample: line and index of the file
    std::vector<std::int32_t> values;  // bits of the samples' values, for objectives that compare answers
    std::vector<std::int32_t> value_counts;  // by sample with several values: their number
  };
  SampleStore(bool seq2seq, RowKind kind, std::vector<std::int32_t> ids, std::vector<std::int32_t> labels,
              const Arrays& arrays, std::vector<std::string> files);
  Arrays arrays() const;
  const std::vector<std::int32_t>& ids() const { return ids_; }  // of all samples
  const std::vector<std::int32_t>& labels() const { return labels_; }
  const std::vector<std::string>& files() const { return files_; }

  std::int64_t size() const { return static_cast<std::int64_t>(lines_.size()); }
  View operator[](std::int64_t i) const;  // of a pair: the chosen answer
  View rejected(std::int64_t i) const { return sequence(i * sequences_each() + 1); }
  float value(std::int64_t i) const { return values(i).front(); }
  std::span<const float> old_logps(std::int64_t i) const { return values(i).subspan(1); }  // rollouts only
  std::span<const float> classes(std::int64_t i) const { return values(i); }  // classifications only
  // Returns the row of a prompt; for prompts only.
  const std::string& row(std::int64_t i) const { return texts_[static_cast<std::size_t>(i)]; }
  // Returns the tokens cut from the end of a labelled answer; a shorter prompt may have room for them.
  std::span<const std::int32_t> tail(std::int64_t i) const;
  std::string source(std::int64_t i) const;  // such as train.jsonl:18

 private:
  std::int64_t sequences_each() const { return kind_ == RowKind::pair ? 2 : 1; }
  View sequence(std::int64_t i) const;
  std::span<const float> values(std::int64_t i) const;
  void add(const std::vector<std::int32_t>& ids, const std::vector<std::int32_t>& labels);

  std::vector<std::int32_t> ids_, labels_;  // all tokens
  bool seq2seq_;
  RowKind kind_;
  std::vector<std::int64_t> ends_;        // by sequence: one past its last token
  std::vector<std::int64_t> label_ends_;  // by sequence: the same of its labels, encoder-decoders only
  // By sample, for objectives that compare answers; in rollouts old_logps follow. Of classifications: labels.
  std::vector<float> values_;
  std::vector<std::int64_t> value_ends_;  // by sample with several values
  std::vector<std::string> texts_;        // by sample, prompts only
  std::vector<std::int32_t> lines_;       // by sample
  std::vector<std::int32_t> file_;        // by sample
  std::vector<std::string> files_;
};

class Dataset {
 public:
  Dataset() = default;
  // Takes the samples `rows` of `store`, in this order; a sample may occur several times.
  Dataset(std::shared_ptr<const SampleStore> store, std::vector<std::int64_t> rows);

  std::int64_t size() const { return static_cast<std::int64_t>(rows_.size()); }
  SampleStore::View operator[](std::int64_t i) const { return (*store_)[row(i)]; }
  SampleStore::View rejected(std::int64_t i) const { return store_->rejected(row(i)); }
  std::span<const std::int32_t> tail(std::int64_t i) const { return store_->tail(row(i)); }
  float value(std::int64_t i) const { return store_->value(row(i)); }
  std::span<const float> old_logps(std::int64_t i) const { return store_->old_logps(row(i)); }
  std::span<const float> classes(std::int64_t i) const { return store_->classes(row(i)); }
  // Sets the beginnings of each dataset's samples in the store, and the end of the last; dataset_of() then
  // returns the number of a sample's dataset.
  void set_bounds(std::vector<std::int64_t> bounds) { bounds_ = std::move(bounds); }
  bool has_bounds() const { return !bounds_.empty(); }
  std::int32_t dataset_of(std::int64_t i) const;
  Json prompt_row(std::int64_t i) const;  // as in its file, with null for NaN and infinities
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
  std::vector<std::int64_t> rows_, bounds_;
  std::int64_t tokens_ = 0, targets_ = 0, longest_ = 0, untrained_ = 0;
};

// Returns true if samples of this kind have any number of values.
constexpr bool has_several_values(RowKind kind) {
  return kind == RowKind::rollout || kind == RowKind::classified;
}

// Counts labels that are trained. The first label never is, except in encoder-decoders, classifications and
// texts.
std::int64_t count_targets(std::span<const std::int32_t> labels, bool first = false);

}  // namespace ft
