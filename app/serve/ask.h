// The body of a request to /v1/completions or /v1/chat/completions. Every field is used or refused by name:
// what has no effect here has to have the value with which it does nothing.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/chat_turns.h"
#include "engine/generate/config.h"

namespace ft {

struct Ask {
  bool chat = false;
  std::string model;
  ChatTurns turns;     // chat
  std::string prompt;  // else one of these
  std::optional<std::vector<std::int32_t>> ids;
  std::optional<std::int64_t> max_tokens;  // nothing: as the server's settings say
  std::vector<std::string> stop;
  bool stream = false, usage_at_end = false;  // stream_options.include_usage
  bool seeded = false;
  GenerationConfig generation;  // the server's settings, with those of the request
};

// Throws ApiError. `settings`: those of the server, which the request may change.
Ask read_ask(const std::string& body, bool chat, const GenerationConfig& settings);

}  // namespace ft
