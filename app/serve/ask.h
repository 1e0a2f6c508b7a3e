// The body of a request to /v1/completions or /v1/chat/completions. Every field is used or refused by name. A
// field that ft does not support must have the value with which it does nothing.
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
  std::optional<std::vector<std::int32_t>> ids;  // instead of the text
};

struct Ask {
  bool chat = false;
  std::string model;
  ChatTurns turns;                         // chats only
  ToolUse tools;                           // chats only
  std::vector<AskedText> prompts;          // completions only
  std::int64_t n = 1;                      // answers to each prompt
  std::optional<std::int64_t> max_tokens;  // empty: the server's setting; 0: only with echo
  std::vector<std::string> stop;
  std::vector<std::int32_t> stop_ids;         // tokens that end an answer, besides the model's
  bool token_ids = false;                     // report the prompt's and the answer's token ids
  bool stream = false, usage_at_end = false;  // stream_options.include_usage
  bool seeded = false;
  bool echo = false;                     // put the prompt before its answer
  std::optional<std::int64_t> logprobs;  // number of likeliest tokens to report; empty: no probabilities
  GenerationConfig generation;           // the server's settings, changed by the request
};

// Reads a request. `settings`: the server's, which the request may change. Throws ApiError.
Ask read_ask(const std::string& body, bool chat, const GenerationConfig& settings);

// The body of a request to /v1/load_lora_adapter or /v1/unload_lora_adapter, as vLLM's.
struct AdapterChange {
  std::string name, folder;
  bool in_place = false;
};
// Throws ApiError.
AdapterChange read_adapter_change(const std::string& body, bool load);

}  // namespace ft
