#include "data/chat/chat_inputs.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "data/files/json_row.h"
#include "engine/core/error.h"

namespace ft {
namespace {

constexpr const char* kKwargs = "chat_template_kwargs";

// Arguments of transformers' apply_chat_template that are not variables of the template.
constexpr const char* kGivenOtherwise[] = {"messages",
                                           "conversation",
                                           "tools",
                                           "documents",
                                           "chat_template",
                                           "add_generation_prompt",
                                           "continue_final_message",
                                           "tokenize",
                                           "padding",
                                           "truncation",
                                           "max_length",
                                           "return_tensors",
                                           "return_dict",
                                           "return_assistant_tokens_mask",
                                           "tokenizer_kwargs"};

}  // namespace

Json template_kwargs(const Json& usual, const Json& own) {
  if (own.is_null()) return usual;
  if (!own.is_object())
    throw std::invalid_argument("must be an object of the template's variables, is " + json_excerpt(own));
  Json all = usual.is_null() ? Json::object() : usual;
  for (const auto& [name, value] : own.items()) {
    if (std::find(std::begin(kGivenOtherwise), std::end(kGivenOtherwise), name) != std::end(kGivenOtherwise))
      throw std::invalid_argument(name + " is not one of the template's own variables");
    all[name] = value;
  }
  return all;
}

Json usual_template_kwargs(const DataConfig& config) {
  if (config.chat_template_kwargs.text.empty()) return {};
  try {
    return template_kwargs({}, Json::parse(config.chat_template_kwargs.text));
  } catch (const std::invalid_argument& wrong) {
    throw UserError(Exit::config, str("data.", kKwargs, ": ", printable(wrong.what())));
  }
}

ChatColumns::ChatColumns(const FormatContext& context)
    : tools_name_(column(context.dataset, "tools")),
      kwargs_name_(column(context.dataset, kKwargs)),
      kwargs_(usual_template_kwargs(context.data)),
      given_(context.chat_settings()) {
  if (context.data.tools.text.empty()) return;
  tools_ = Json::parse(context.data.tools.text);
  if (!tools_.is_null() && !tools_.is_array())
    throw UserError(Exit::config, "data.tools: must be a list of functions' schemas");
}

void ChatColumns::require_unused(const Place& at) const {
  if (!given_.empty())
    throw UserError(Exit::config, str("data.", given_.front(), ": has no effect on ", at.where(),
                                      ", which is plain text; take it out, or write prompts as messages"));
}

Json ChatColumns::tools_of(const Json& row, const Place& at) const {
  const auto found = row.find(tools_name_);
  if (found == row.end()) return tools_;
  const Json list = found->is_string() ? parse_json(found->get<std::string>(), {*at.name, at.line}) : *found;
  if (!list.is_null() && !list.is_array())
    at.fail(str(printable(tools_name_), ": must be a list of tools, is ", json_excerpt(list)));
  return list;
}

ChatInputs ChatColumns::of(const Json& row, const Place& at) const {
  ChatInputs with{.tools = tools_of(row, at), .documents = {}, .kwargs = kwargs_};
  if (const auto found = row.find(kwargs_name_); found != row.end()) try {
      with.kwargs = template_kwargs(kwargs_, *found);
    } catch (const std::invalid_argument& wrong) {
      at.fail(str(printable(kwargs_name_), ": ", printable(wrong.what())));
    }
  return with;
}

}  // namespace ft
