// A conversation written by a chat template, and which parts of the text are whose.
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

// What a template sees beside the messages; null: nothing.
struct ChatInputs {
  Json tools, documents;
  Json kwargs;  // variables of the template's own, an object; they win over special tokens' names
};

// As a row has it: every message with all its keys.
struct ChatTurns {
  std::vector<Json> messages;
  ChatInputs with{};
  std::size_t bytes = 0;          // of the row: what a template may use grows with it
  std::string list = "messages";  // the column's name, in errors
};

// Choice of what is trained in a conversation.
struct WantedTurns {
  std::vector<bool> trained;   // for each message
  std::vector<bool> kept_out;  // for each message: it says itself that it is not trained
  bool inputs = false;         // all is trained, but what is kept out
  bool ends = false;           // the end of each message is trained
};

// The parts of a text; joined they are the text. Messages are counted from 1.
struct WrittenChat {
  std::vector<ChatPart> parts;
  std::vector<std::int32_t> lost{};      // wanted messages that are not found in the text
  std::vector<std::int32_t> unopened{};  // found, but they do not begin with the generation prompt
};

class TurnWriter {
 public:
  // `format`: the known format that the template looks like; it is used for the conversations for which both
  // write the same text. Throws jinja::Error.
  TurnWriter(const std::string& jinja, std::optional<ChatFormat> format, const Tokenizer& tokenizer,
             const jinja::Template::Variables& specials);

  // Throws std::invalid_argument with the template's line where it fails, or refuses the conversation.
  //
  // A message's part is where two renderings begin alike: that of the messages before it, with what opens an
  // answer, and that of the messages up to it. If the whole text begins with both, the message is what lies
  // between, without white space behind the special token that ends it; else it is lost. If no wanted answer
  // begins with the text that opens an answer, each begins behind the tokens that it shares with that text.
  // A template with {% generation %} says itself what is trained, except for messages that are kept out.
  WrittenChat write(const ChatTurns& turns, const WantedTurns& wanted) const;
  std::string text(const ChatTurns& turns) const;
  // Up to where the next answer begins.
  std::string prompt(const ChatTurns& turns) const;
  // The special token that closes an answer, such as <|im_end|>; "": none.
  std::string end_of_answer() const;
  bool marks() const { return template_.generates(); }  // {% generation %} says what is trained

 private:
  class Rendered;
  WrittenChat marked(const Rendered&, const ChatTurns&, const jinja::Rendering& whole,
                     const WantedTurns&) const;

  jinja::Template template_;
  std::optional<ChatFormat> format_;
  const Tokenizer& tokenizer_;
  jinja::Template::Variables specials_;      // bos_token and so on
  std::vector<std::string> special_tokens_;  // all of the tokenizer
  std::time_t now_ = std::time(nullptr);     // one for all rows
};

// Messages of nothing but a known role and text; nothing where there is more in them.
std::optional<std::vector<ChatMessage>> plain_messages(const std::vector<Json>& messages);

}  // namespace ft
