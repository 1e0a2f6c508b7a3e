#include "app/serve/reply.h"

#include "engine/files/hash.h"

namespace ft {
namespace {

Json or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json error_json(const ApiError& e) {
  const char* type = e.status == 401   ? "authentication_error"
                     : e.status == 429 ? "rate_limit_error"
                     : e.status >= 500 ? "server_error"
                                       : "invalid_request_error";
  return {{"error",
           {{"message", e.what()}, {"type", type}, {"param", or_null(e.param)}, {"code", or_null(e.code)}}}};
}

Json usage_json(const Usage& u) {
  return {{"prompt_tokens", u.prompt},
          {"completion_tokens", u.completion},
          {"total_tokens", u.prompt + u.completion}};
}

Json frame_json(const ReplyFrame& f, bool chunk) {
  const char* object = !f.chat ? "text_completion" : chunk ? "chat.completion.chunk" : "chat.completion";
  return {{"id", f.id}, {"object", object}, {"created", f.created}, {"model", f.model}};
}

std::string event(const Json& j) { return "data: " + json_text(j, -1) + "\n\n"; }

Json choice_json(const ReplyChoice& c, const char* part, Json content) {
  Json j{{"index", c.index},
         {part, std::move(content)},
         {"logprobs", c.logprobs},
         {"finish_reason", or_null(c.finish)}};
  if (c.ids) j["token_ids"] = *c.ids;
  return j;
}

// Makes names of nine letters and digits, because some chat templates refuse other names.
Json calls_json(const ReplyFrame& f, const ReplyChoice& c, bool numbered) {
  constexpr std::size_t kName = 9;
  Json all = Json::array();
  for (std::size_t i = 0; i < c.calls.size(); ++i) {
    Json one = numbered ? Json{{"index", i}} : Json::object();
    one["id"] = sha256(str(f.id, ' ', c.index, ' ', i)).substr(0, kName);
    one["type"] = "function";
    one["function"] = {{"name", c.calls[i].name}, {"arguments", c.calls[i].arguments}};
    all.push_back(std::move(one));
  }
  return all;
}

std::string with_choice(const ReplyFrame& f, Json choice) {
  Json j = frame_json(f, true);
  j["choices"] = Json::array({std::move(choice)});
  return event(j);
}

}  // namespace

HttpReply error_reply(const ApiError& e) {
  HttpReply reply{.status = e.status, .body = json_text(error_json(e), -1)};
  if (e.status == 401) reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (e.status == 429 || e.status == 503) reply.headers.emplace_back("Retry-After", "1");
  return reply;
}

HttpReply health_reply() { return {.body = json_text({{"status", "ok"}}, -1)}; }

HttpReply models_reply(const std::vector<std::string>& names, std::int64_t created, bool one) {
  Json list = Json::array();
  for (const std::string& name : names)
    list.push_back({{"id", name}, {"object", "model"}, {"created", created}, {"owned_by", "ft"}});
  if (one) return {.body = json_text(list[0], -1)};
  return {.body = json_text({{"object", "list"}, {"data", list}}, -1)};
}

std::string whole_reply(const ReplyFrame& f, const std::vector<ReplyChoice>& choices, const Usage& usage) {
  Json j = frame_json(f, false);
  j["choices"] = Json::array();
  for (const ReplyChoice& c : choices) {
    if (!f.chat) {
      j["choices"].push_back(choice_json(c, "text", c.text));
      if (c.ids) j["choices"].back()["prompt_token_ids"] = c.prompt_ids;
      continue;
    }
    if (c.ids) j["prompt_token_ids"] = c.prompt_ids;
    Json message{{"role", "assistant"}, {"content", c.text}, {"refusal", nullptr}};
    if (!c.calls.empty()) {
      message["content"] = or_null(c.text);
      message["tool_calls"] = calls_json(f, c, false);
    }
    j["choices"].push_back(choice_json(c, "message", std::move(message)));
  }
  j["usage"] = usage_json(usage);
  return json_text(j, -1);
}

std::string first_event(const ReplyFrame& f, std::size_t index) {
  if (!f.chat) return "";
  return with_choice(f, choice_json({.index = index}, "delta", {{"role", "assistant"}, {"content", ""}}));
}

std::string piece_event(const ReplyFrame& f, const ReplyChoice& c) {
  if (!f.chat) return with_choice(f, choice_json(c, "text", c.text));
  Json delta = Json::object();
  if (!c.text.empty()) delta["content"] = c.text;
  if (!c.calls.empty()) delta["tool_calls"] = calls_json(f, c, true);
  return with_choice(f, choice_json(c, "delta", std::move(delta)));
}

std::string usage_event(const ReplyFrame& f, const Usage& u) {
  Json j = frame_json(f, true);
  j["choices"] = Json::array();
  j["usage"] = usage_json(u);
  return event(j);
}

std::string error_event(const ApiError& e) { return event(error_json(e)); }

}  // namespace ft
