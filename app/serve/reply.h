// Replies in the words of OpenAI's API.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "app/serve/api_error.h"
#include "app/serve/http.h"

namespace ft {

// An answer's name, when it was asked for, the model that was asked.
struct ReplyFrame {
  bool chat = false;
  std::string id, model;
  std::int64_t created = 0;  // seconds since 1970
};
struct Usage {
  std::int64_t prompt = 0, completion = 0;  // tokens
};

HttpReply error_reply(const ApiError&);
// one: the model itself in place of a list of them.
HttpReply models_reply(const std::vector<std::string>& names, std::int64_t created, bool one);
// finish: "stop" or "length".
std::string whole_reply(const ReplyFrame&, const std::string& text, const std::string& finish, const Usage&);

// Pieces of a stream, each a server-sent event. `finish` "": there is more to come.
std::string first_event(const ReplyFrame&);  // of a chat: who speaks; else nothing
std::string text_event(const ReplyFrame&, const std::string& text, const std::string& finish = "");
std::string usage_event(const ReplyFrame&, const Usage&);
std::string error_event(const ApiError&);
inline constexpr const char* kLastEvent = "data: [DONE]\n\n";

}  // namespace ft
