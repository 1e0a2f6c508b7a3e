// How a model reads conversations, and where its answers end.
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
  // With data.chat_template and data.chat_template_kwargs, as ChatTemplate. The tokenizer outlives it.
  ChatReader(const DataConfig& config, const std::filesystem::path& tokenizer_path,
             const Tokenizer& tokenizer);

  // Tokens up to where the answer begins. Throws std::invalid_argument: what is wrong with the conversation.
  std::vector<std::int32_t> prompt(ChatTurns) const;
  // What closes an answer, such as <|im_end|>; "": nothing.
  std::string end() const;

 private:
  const Tokenizer& tokenizer_;
  ChatTemplate template_;
  Json kwargs_;  // usual ones
};

// Where answers end: at tokens, or texts.
struct AnswerEnds {
  std::vector<std::int32_t> tokens;
  std::vector<std::string> texts;
  // What closes an answer: a token, or a text where the tokenizer has no such token.
  void add(const std::string& end, const Tokenizer&);
};

// Adds a message to a conversation.
void say(ChatTurns&, const std::string& role, const std::string& content);

}  // namespace ft
