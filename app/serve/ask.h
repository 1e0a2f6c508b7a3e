// The body of a request to /v1/completions or /v1/chat/completions. Every field is used or refused by name. A
// field without effect here must have the value with which it does nothing.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/serve/messages.h"
#include "data/chat/chat_turns.h"
#include "engine/generate/config.h"

namespace ft {

struct AskedText {
  std::string text;
  std::optional<std::vector<std::int32_t>> ids;  // in place of the text
};

struct Ask {
  bool chat = false;
  std::string model;
  ChatTurns turns;                         // chat
  ToolUse tools;                           // chat
  std::vector<AskedText> prompts;          // else
  std::int64_t n = 1;                      // answers to each
  std::optional<std::int64_t> max_tokens;  // nothing: as the server's settings say; 0: with echo only
  std::vector<std::string> stop;
  bool stream = false, usage_at_end = false;  // stream_options.include_usage
  bool seeded = false;
  bool echo = false;  // a prompt stands before its answer
  std::optional<std::int64_t>
      logprobs;                 // so many of the likeliest tokens beside each; nothing: none asked for
  GenerationConfig generation;  // the server's settings, with those of the request
};

// Throws ApiError. `settings`: those of the server, which the request may change.
Ask read_ask(const std::string& body, bool chat, const GenerationConfig& settings);

}  // namespace ft
