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

// A part of a conversation's text.
struct ChatPart {
  // content: a message. end: the text that closes a message; if it is trained, the model learns when to stop.
  // generated: text that a template marks as trained. frame: the rest.
  enum class Kind { frame, content, end, generated };
  Kind kind = Kind::frame;
  std::string text;
  std::int64_t message = -1;  // number of the message; -1: a frame
  bool closes = false;        // of `generated`: contains the token that ends the message
};

inline constexpr std::string_view kChatFormats =
    "plain, alpaca, llama2, llama3, chatml, mistral, zephyr, gemma";

std::optional<ChatFormat> chat_format_by_name(std::string_view name);

// Returns the parts in order. The joined text is tokenized at once, and no tokens are added around it: it
// contains BOS if the format has one. Throws std::invalid_argument with the fault of the conversation: no
// message, an unknown role, or roles out of turn in a format whose roles take turns.
std::vector<ChatPart> render_chat(const ChatFormat& format, std::span<const ChatMessage> messages,
                                  const Tokenizer& tokenizer);

// Returns the text up to the beginning of the next answer.
std::string render_chat_prompt(const ChatFormat& format, std::span<const ChatMessage> messages,
                               const Tokenizer& tokenizer);

}  // namespace ft
