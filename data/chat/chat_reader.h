// Writes conversations as a model reads them, and finds the ends of its answers.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/chat/chat_template.h"
#include "data/config.h"
#include "data/tokenizers/tokenizer.h"

namespace ft {

class ChatReader {
 public:
  // Uses data.chat_template and data.chat_template_kwargs as ChatTemplate does. The tokenizer must outlive
  // the reader.
  ChatReader(const DataConfig& config, const std::filesystem::path& tokenizer_path,
             const Tokenizer& tokenizer);

  // Returns the tokens up to the beginning of the answer. Throws std::invalid_argument if the conversation is
  // not valid.
  std::vector<std::int32_t> prompt(ChatTurns) const;
  // Returns the text that closes an answer, such as <|im_end|>; "": none.
  std::string end() const;

 private:
  const Tokenizer& tokenizer_;
  ChatTemplate template_;
  Json kwargs_;  // defaults
};

// Tokens and texts that end an answer.
struct AnswerEnds {
  std::vector<std::int32_t> tokens;
  std::vector<std::string> texts;
  // Adds the end of an answer: as a token, or as text if the tokenizer has no such token.
  void add(const std::string& end, const Tokenizer&);
};

// Adds a message to a conversation.
void say(ChatTurns&, const std::string& role, const std::string& content);

}  // namespace ft
