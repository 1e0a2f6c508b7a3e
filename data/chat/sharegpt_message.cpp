#include "data/chat/sharegpt_message.h"

#include <map>
#include <nlohmann/json.hpp>

#include "data/chat/trained_chat.h"
#include "engine/core/error.h"

namespace ft {
namespace {

constexpr std::string_view kCalls = "calls";  // role of an assistant's message that consists of tool calls

// Returns the role of a name; "": unknown.
std::string_view role_of(const std::string& name) {
  static const std::map<std::string, std::string_view> kRoles{
      {"system", "system"},      {"human", "user"},         {"user", "user"},
      {"gpt", "assistant"},      {"model", "assistant"},    {"assistant", "assistant"},
      {"chatgpt", "assistant"},  {"bing", "assistant"},     {"bard", "assistant"},
      {"function_call", kCalls}, {"tool_call", kCalls},     {"observation", "tool"},
      {"tool", "tool"},          {"tool_response", "tool"}, {"function_response", "tool"},
  };
  const auto found = kRoles.find(name);
  return found == kRoles.end() ? "" : found->second;
}

// Returns the value of a JSON text.
Json parsed(const std::string& text, const std::string& where, const Place& at) {
  try {
    return parse_json(text, {*at.name, at.line});
  } catch (const UserError&) {
    at.fail(str(where, ": must be JSON of a call of a tool, or of a list of calls, is ",
                json_excerpt(Json(text))));
  }
}

Json call_of(const Json& given, const std::string& where, const Place& at) {
  Json call = given.is_object() && given.contains("function") ? given["function"] : given;
  if (!call.is_object() || !call.contains("name") || !call["name"].is_string())
    at.fail(
        str(where, R"(: a call of a tool is {"name": text, "arguments": {...}}, is )", json_excerpt(given)));
  if (call.contains("arguments") && call["arguments"].is_string())
    call["arguments"] = parsed(call["arguments"].get<std::string>(), where + ", arguments", at);
  return {{"type", "function"}, {"function", call}};
}

Json calls_of(const Json& value, const std::string& where, const Place& at) {
  const Json given = value.is_string() ? parsed(value.get<std::string>(), where, at) : value;
  Json calls = Json::array();
  if (given.is_array())
    for (const Json& call : given) calls.push_back(call_of(call, where, at));
  else
    calls.push_back(call_of(given, where, at));
  return calls;
}

}  // namespace

Json from_sharegpt(const Json& message, const std::string& where, const Place& at) {
  const Json* from = member(message, "from");
  if (!from || !from->is_string()) at.fail(where + ".from: must be a string");
  const auto name = from->get<std::string>();
  const std::string_view role = role_of(name);
  if (role.empty())
    at.fail(str(where, ".from: unknown role \"", printable(name, 40),
                "\"; known are human, gpt, system, function_call and observation"));
  const Json* value = member(message, "value");
  if (role == kCalls) {
    if (!value) at.fail(where + ": no value");
    return {{"role", "assistant"},
            {"content", ""},
            {"tool_calls", calls_of(*value, str(where, ".value (", printable(name), ")"), at)}};
  }
  Json out{{"role", role}};
  if (value) out["content"] = *value;
  for (const char* key : {"tool_calls", "reasoning_content", "thinking"})
    if (const Json* given = member(message, key)) out[key] = *given;
  return out;
}

}  // namespace ft
