// Writes questions for a model as its rows were written in training, if its folder says so
// (data/batches/kept_prompts.h). Else conversations get its chat template, and texts are not changed.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "app/answers/generation.h"
#include "data/chat/chat_reader.h"
#include "data/rows/dataset.h"

namespace ft {

class Asking {
 public:
  // `folder`: the adapter's or the model's, which may say how it was trained. data.chat_template of the
  // command line comes before it; "none" there leaves texts unchanged. The tokenizer outlives this.
  Asking(const Answerer&, const std::string& folder, const std::string& tokenizer_path, const Tokenizer&);
  // For the model itself, with its adapter and its tokenizer.
  explicit Asking(const Answerer&);

  // Conversations have several turns; else each question is asked alone.
  // UserError where the model's own template cannot be read, which texts do not need.
  bool has_turns() const;
  // Training or the command line decided how a text is asked.
  bool is_known() const { return written_ != Written::unknown; }
  Written written() const { return written_; }

  // Returns the tokens before the answer. Throws std::invalid_argument for a conversation that is wrong.
  std::vector<std::int32_t> conversation(ChatTurns) const;
  // Returns the tokens of a question: as trained, or the text unchanged if training is not known.
  std::vector<std::int32_t> question(const std::string& text) const;
  // Returns the tokens of an instruction with an input or "": as trained, or in Alpaca's words.
  std::vector<std::int32_t> instruction(const std::string& text, const std::string& input) const;

  const AnswerEnds& plain_ends() const { return plain_; }  // of a continued text
  const AnswerEnds& chat_ends() const { return turn_; }    // of a turn
  const AnswerEnds& question_ends() const { return written_ == Written::chat ? turn_ : plain_; }

 private:
  const Answerer& answerer_;
  const Tokenizer& tokenizer_;
  Written written_ = Written::unknown;
  std::optional<ChatReader> chat_;
  std::optional<UserError> unreadable_;  // why there is none although the model has a template
  AnswerEnds plain_, turn_;
};

// Tokens that end the answers of a run's own rows: the model's, and where rows are conversations the one that
// closes a turn.
std::vector<std::int32_t> end_tokens_of_rows(const std::string& folder, const RunConfig&, const Tokenizer&,
                                             Written);

}  // namespace ft
