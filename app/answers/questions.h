// The rows that ft generate answers.
#pragma once
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/answers/asking.h"
#include "engine/files/json.h"

namespace ft {

// A row is input_ids; a text as prompt or question; Alpaca's instruction and input; or a conversation as
// messages or prompt, with tools and chat_template_kwargs beside it.
struct Questions {
  std::vector<Json> rows;
  std::vector<Prompt> prompts;
  std::vector<const AnswerEnds*> ends;   // of each
  std::optional<TokenChooser> of_turns;  // for prompts that are conversations
  std::optional<Asking> asking;          // nothing: there is no tokenizer
  bool reworded = false;                 // some texts were written as in training
};

// Throws UserError (exit 3) that names the row. The answerer outlives the questions.
std::unique_ptr<Questions> read_questions(const std::string& file, const Answerer&);
// For one text. Throws UserError (exit 2).
std::unique_ptr<Questions> one_question(const std::string& text, const Answerer&);

}  // namespace ft
