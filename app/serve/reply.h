// Replies in the form of OpenAI's API.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/http/http.h"
#include "app/serve/api_error.h"
#include "app/serve/tool_calls.h"
#include "engine/files/json.h"

namespace ft {

// An answer's id, its time, and the requested model.
struct ReplyFrame {
  bool chat = false;
  std::string id, model;
  std::int64_t created = 0;  // seconds since 1970
};
struct Usage {
  std::int64_t prompt = 0, completion = 0;  // tokens
};
// An answer, or a piece of one.
struct ReplyChoice {
  std::size_t index = 0;
  std::string text;
  std::vector<ToolCall> calls{};
  Json logprobs{};       // null: none
  std::string finish{};  // "stop", "length" or "tool_calls"; "": more pieces follow
  // Token ids of the answer and of its prompt, if the request wants them.
  std::optional<std::vector<std::int32_t>> ids{};
  std::vector<std::int32_t> prompt_ids{};
};

HttpReply error_reply(const ApiError&);
HttpReply health_reply();
// `one`: replies with the model itself instead of a list.
HttpReply models_reply(const std::vector<std::string>& names, std::int64_t created, bool one);
std::string whole_reply(const ReplyFrame&, const std::vector<ReplyChoice>&, const Usage&);

// Return pieces of a stream, each a server-sent event.
std::string first_event(const ReplyFrame&, std::size_t index);  // for a chat its role, else nothing
std::string piece_event(const ReplyFrame&, const ReplyChoice&);
std::string usage_event(const ReplyFrame&, const Usage&);
std::string error_event(const ApiError&);
inline constexpr const char* kLastEvent = "data: [DONE]\n\n";

}  // namespace ft
