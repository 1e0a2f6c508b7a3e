// Conversations as text: how a model was taught to tell the speakers apart. A format is chosen by name
// (data.chat_template) or recognised in the model's own chat_template.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/tokenizer.h"

namespace ft {

struct ChatMessage {
  std::string role;  // system, user or assistant
  std::string content;
};

enum class ChatStyle { plain, alpaca, llama2, llama3, chatml, mistral, zephyr, gemma };

struct ChatFormat {
  ChatStyle style = ChatStyle::plain;
  bool trim = false;  // white space around a content goes, as some models' own templates have it
};

// A stretch of a rendering.
struct ChatPart {
  // end: what closes a message, and teaches when to stop; generated: what a template itself marks as trained
  enum class Kind { frame, content, end, generated };
  Kind kind = Kind::frame;
  std::string text;
  std::int64_t message = -1;  // whose content or end; -1: a frame
  bool closes = false;        // generated: the token that ends the message is in it
};

inline constexpr std::string_view kChatFormats =
    "plain, alpaca, llama2, llama3, chatml, mistral, zephyr, gemma";

std::optional<ChatFormat> chat_format_by_name(std::string_view name);

// The parts in their order; joined they are the text, which is tokenized as one, without anything around it:
// BOS is in it where the format has it. Throws std::invalid_argument that says what is wrong with the
// conversation: no message, an unknown role, roles out of turn where the format has them in turn.
std::vector<ChatPart> render_chat(const ChatFormat& format, std::span<const ChatMessage> messages,
                                  const Tokenizer& tokenizer);

// The text up to where the next answer begins.
std::string render_chat_prompt(const ChatFormat& format, std::span<const ChatMessage> messages,
                               const Tokenizer& tokenizer);

}  // namespace ft
