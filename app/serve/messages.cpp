#include "app/serve/messages.h"

#include <algorithm>
#include <stdexcept>

#include "data/chat/chat_inputs.h"

namespace ft {
namespace {

// Turns a message's content into a string. It is a string or a list of text parts.
void require_text(Json& content) {
  if (content.is_null() || content.is_string()) return;
  if (!content.is_array()) Fields::refuse("messages", "content is a string or a list of text parts");
  std::string all;
  for (const Json& part : content) {
    const auto text = part.is_object() ? part.find("text") : part.end();
    if (!part.is_object() || part.value("type", Json()) != "text" || text == part.end() || !text->is_string())
      Fields::refuse("messages", "only parts {\"type\": \"text\", \"text\": ...} are available");
    all += text->get<std::string>();
  }
  content = all;
}

// Converts calls' arguments from JSON text, as in the API, to objects, as templates read them.
void open_arguments(Json& calls) {
  if (calls.is_null()) return;
  if (!calls.is_array()) Fields::refuse("messages", "tool_calls is a list");
  for (Json& call : calls) {
    const auto function = call.is_object() ? call.find("function") : call.end();
    if (!call.is_object() || function == call.end() || !function->is_object() ||
        !function->value("name", Json()).is_string())
      Fields::refuse("messages",
                     "a tool call is {\"id\": ..., \"type\": \"function\", \"function\": {\"name\": "
                     "..., \"arguments\": ...}}");
    const auto arguments = function->find("arguments");
    if (arguments == function->end() || !arguments->is_string()) continue;
    const auto text = arguments->get<std::string>();
    try {
      Json open = text.empty() ? Json::object() : parse_json(text, {"arguments"}, {.unique_keys = false});
      if (open.is_object()) *arguments = std::move(open);
    } catch (const UserError&) {  // not JSON: the template shows the model's own text
    }
  }
}

}  // namespace

ChatTurns read_turns(Fields& f, std::size_t bytes) {
  const Json* v = f.find("messages");
  if (!v || !v->is_array() || v->empty()) Fields::refuse("messages", "a list of messages, at least one");
  ChatTurns turns;
  turns.bytes = bytes;
  if (const Json* kwargs = f.find("chat_template_kwargs")) try {
      turns.with.kwargs = template_kwargs({}, *kwargs);
    } catch (const std::invalid_argument& wrong) {
      Fields::refuse("chat_template_kwargs", wrong.what());
    }
  for (Json message : *v) {
    const auto role = message.is_object() ? message.find("role") : message.end();
    if (!message.is_object() || role == message.end() || !role->is_string())
      Fields::refuse("messages", "a message is an object with a role and a content");
    if (*role == "developer") *role = "system";  // the API's newer name for system
    if (const auto content = message.find("content"); content != message.end()) require_text(*content);
    if (const auto calls = message.find("tool_calls"); calls != message.end()) {
      open_arguments(*calls);
      if (calls->empty()) message.erase("tool_calls");
    }
    turns.messages.push_back(std::move(message));
  }
  return turns;
}

ToolUse read_tools(Fields& f, ChatTurns& turns) {
  ToolUse use{.names = {}, .parallel = f.flag("parallel_tool_calls", true)};
  const Json *tools = f.find("tools"), *choice = f.find("tool_choice");
  const bool none = choice && *choice == "none";
  if (choice && !none && *choice != "auto")
    Fields::refuse("tool_choice",
                   "\"auto\" and \"none\" are available: nothing forces a model to call a tool");
  if (!tools) return use;
  if (!tools->is_array()) Fields::refuse("tools", "must be a list, is " + json_excerpt(*tools));
  for (const Json& tool : *tools) {
    const auto function = tool.is_object() ? tool.find("function") : tool.end();
    const bool fine = tool.is_object() && tool.value("type", Json()) == "function" &&
                      function != tool.end() && function->is_object() &&
                      function->value("name", Json()).is_string();
    if (!fine)
      Fields::refuse("tools",
                     "a tool is {\"type\": \"function\", \"function\": {\"name\": ..., "
                     "\"parameters\": ...}}");
    use.names.push_back((*function)["name"].get<std::string>());
  }
  if (none) use.names.clear();
  if (!use.names.empty()) turns.with.tools = *tools;
  return use;
}

}  // namespace ft
