// Writes questions for a model as its rows were written in training, if its folder records that
// (data/batches/kept_prompts.h). Otherwise conversations are written with the model's chat template, and
// texts stay unchanged.
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
  // `folder`: the adapter's or the model's, which may record how rows were written. data.chat_template of the
  // command line overrides the record; "none" leaves texts unchanged. The tokenizer must outlive this object.
  Asking(const Answerer&, const std::string& folder, const std::string& tokenizer_path, const Tokenizer&);
  // Uses the answerer's own adapter and tokenizer.
  explicit Asking(const Answerer&);

  // True if conversations have several turns; false: each question is asked alone. Throws UserError (input)
  // if the model's own template cannot be read; plain texts do not need it.
  bool has_turns() const;
  // True if training or the command line decided how a text is asked.
  bool is_known() const { return written_ != Written::unknown; }
  Written written() const { return written_; }
  // Returns the origin of the form of prompts or turns: "as in training", "in the chat format chatml", "with
  // the model's own chat template".
  std::string origin() const;

  // Returns the tokens before the answer. Throws std::invalid_argument if the conversation is malformed.
  std::vector<std::int32_t> conversation(ChatTurns) const;
  // Returns the tokens of a question, written as in training; the text unchanged if training is not known.
  std::vector<std::int32_t> question(const std::string& text) const;
  // Returns the tokens of an instruction with an input ("": none), written as in training, or as Alpaca
  // writes them.
  std::vector<std::int32_t> instruction(const std::string& text, const std::string& input) const;

  const AnswerEnds& plain_ends() const { return plain_; }  // ends of a continued text
  const AnswerEnds& chat_ends() const { return turn_; }    // ends of a turn
  const AnswerEnds& question_ends() const { return written_ == Written::chat ? turn_ : plain_; }

 private:
  const Answerer& answerer_;
  const Tokenizer& tokenizer_;
  Written written_ = Written::unknown;
  std::optional<ChatReader> chat_;
  std::optional<UserError> unreadable_;  // the error, if the model has a template that cannot be read
  AnswerEnds plain_, turn_;
};

// Returns the tokens that end answers to a run's rows: the model's end tokens, and for conversations the
// token that closes a turn.
std::vector<std::int32_t> end_tokens_of_rows(const std::string& folder, const RunConfig&, const Tokenizer&,
                                             Written);

}  // namespace ft
