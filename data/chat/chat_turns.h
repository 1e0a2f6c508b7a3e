// Writes a conversation with a chat template, and finds the part of the text that each message wrote.
#pragma once
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/chat/chat_format.h"
#include "data/chat/jinja/template.h"
#include "engine/files/json.h"

namespace ft {

// Inputs of a template in addition to the messages; null: none.
struct ChatInputs {
  Json tools, documents;
  Json kwargs;  // the template's variables, an object; they override the names of special tokens
};

// A conversation as in a row: every message with all its keys.
struct ChatTurns {
  std::vector<Json> messages;
  ChatInputs with{};
  std::size_t bytes = 0;          // size of the row; the template's memory limit grows with it
  std::string list = "messages";  // the column's name, in errors
};

// Messages and parts of a conversation to train.
struct WantedTurns {
  std::vector<bool> trained;   // by message
  std::vector<bool> kept_out;  // by message: its own setting says that it is not trained
  bool inputs = false;         // everything is trained except messages in kept_out
  bool ends = false;           // the end of each message is trained
  bool located = false;        // {% generation %} blocks are matched to messages
  bool last_only = false;      // messages may be in kept_out because of data.mask_history
};

// Parts of a text; together they are the text. Messages are counted from 1.
struct WrittenChat {
  std::vector<ChatPart> parts;
  std::vector<std::int32_t> lost{};      // wanted messages that are not found in the text
  std::vector<std::int32_t> unopened{};  // found, but without the generation prompt at the beginning
};

class TurnWriter {
 public:
  // `format`: the known format that the template resembles. It is used for each conversation that both write
  // as the same text. Throws jinja::Error.
  TurnWriter(const std::string& jinja, std::optional<ChatFormat> format, const Tokenizer& tokenizer,
             const jinja::Template::Variables& specials);

  // Throws std::invalid_argument with the template's line if the template fails, or refuses the conversation.
  //
  // A message's part is found by two renderings: the messages before it, followed by the text that opens an
  // answer, and the messages up to and including it. If the whole text begins with both, the message is the
  // text between their ends, without white space after the special token that ends it; else it is lost. If no
  // wanted answer begins with the text that opens an answer, each begins after the tokens that it shares with
  // that text. A template with {% generation %} marks the trained text itself, except for messages that are
  // kept out.
  WrittenChat write(const ChatTurns& turns, const WantedTurns& wanted) const;
  std::string text(const ChatTurns& turns) const;
  // Returns the text up to the beginning of the next answer.
  std::string prompt(const ChatTurns& turns) const;
  // Returns the special token that closes an answer, such as <|im_end|>; "": none.
  std::string end_of_answer() const;
  bool marks() const { return template_.generates(); }  // {% generation %} marks the trained text
  const std::string& reasoning_key() const { return reasoning_key_; }  // see reasoning_key_of

 private:
  class Rendered;
  WrittenChat marked(const Rendered&, const ChatTurns&, const jinja::Rendering& whole,
                     const WantedTurns&) const;

  jinja::Template template_;
  std::optional<ChatFormat> format_;
  const Tokenizer& tokenizer_;
  jinja::Template::Variables specials_;      // bos_token and so on
  std::vector<std::string> special_tokens_;  // all of the tokenizer's
  std::string reasoning_key_;
  std::time_t now_ = std::time(nullptr);  // the same time for all rows
};

// Returns the messages if each has only a known role and a text; else nullopt.
std::optional<std::vector<ChatMessage>> plain_messages(const std::vector<Json>& messages);

}  // namespace ft
