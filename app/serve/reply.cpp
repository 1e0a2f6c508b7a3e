#include "app/serve/reply.h"

#include <nlohmann/json.hpp>

#include "engine/io/json.h"

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

std::string delta_event(const ReplyFrame& f, const Json& delta, const std::string& finish) {
  Json j = frame_json(f, true);
  j["choices"] = Json::array(
      {{{"index", 0}, {"delta", delta}, {"logprobs", nullptr}, {"finish_reason", or_null(finish)}}});
  return event(j);
}

}  // namespace

HttpReply error_reply(const ApiError& e) {
  HttpReply reply{.status = e.status, .body = json_text(error_json(e), -1)};
  if (e.status == 401) reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (e.status == 429 || e.status == 503) reply.headers.emplace_back("Retry-After", "1");
  return reply;
}

HttpReply models_reply(const std::vector<std::string>& names, std::int64_t created, bool one) {
  Json list = Json::array();
  for (const std::string& name : names)
    list.push_back({{"id", name}, {"object", "model"}, {"created", created}, {"owned_by", "ft"}});
  if (one) return {.body = json_text(list[0], -1)};
  return {.body = json_text({{"object", "list"}, {"data", list}}, -1)};
}

std::string whole_reply(const ReplyFrame& f, const std::string& text, const std::string& finish,
                        const Usage& usage) {
  Json choice{{"index", 0}};
  if (f.chat)
    choice["message"] = {{"role", "assistant"}, {"content", text}, {"refusal", nullptr}};
  else
    choice["text"] = text;
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = finish;
  Json j = frame_json(f, false);
  j["choices"] = Json::array({choice});
  j["usage"] = usage_json(usage);
  return json_text(j, -1);
}

std::string first_event(const ReplyFrame& f) {
  return f.chat ? delta_event(f, {{"role", "assistant"}, {"content", ""}}, "") : "";
}

std::string text_event(const ReplyFrame& f, const std::string& text, const std::string& finish) {
  if (f.chat) return delta_event(f, text.empty() ? Json::object() : Json{{"content", text}}, finish);
  Json j = frame_json(f, true);
  j["choices"] = Json::array(
      {{{"index", 0}, {"text", text}, {"logprobs", nullptr}, {"finish_reason", or_null(finish)}}});
  return event(j);
}

std::string usage_event(const ReplyFrame& f, const Usage& u) {
  Json j = frame_json(f, true);
  j["choices"] = Json::array();
  j["usage"] = usage_json(u);
  return event(j);
}

std::string error_event(const ApiError& e) { return event(error_json(e)); }

}  // namespace ft
