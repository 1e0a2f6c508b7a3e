// Reads the rows that ft generate answers.
#pragma once
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/answers/asking.h"
#include "engine/files/json.h"

namespace ft {

// Rows and their prompts. A row holds input_ids; or a text as prompt or question; or Alpaca's instruction and
// input; or a conversation as messages or prompt, with optional tools and chat_template_kwargs.
struct Questions {
  std::vector<Json> rows;
  std::vector<Prompt> prompts;
  std::vector<const AnswerEnds*> ends;   // one for each prompt
  std::optional<TokenChooser> of_turns;  // the chooser for conversations
  std::optional<Asking> asking;          // empty: there is no tokenizer
  bool reworded = false;                 // some prompts are written in another form, not continued
};

// Reads a file. Throws UserError (input) that names the row. The answerer must outlive the questions.
std::unique_ptr<Questions> read_questions(const std::string& file, const Answerer&);
// Makes the question of one text. Throws UserError (config) if it cannot be asked.
std::unique_ptr<Questions> one_question(const std::string& text, const Answerer&);

}  // namespace ft
