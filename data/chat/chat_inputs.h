// What a chat template sees beside a conversation's messages.
#pragma once
#include <string>

#include "data/chat/chat_turns.h"
#include "data/rows/format.h"
#include "engine/files/json.h"

namespace ft {

// `own` over `usual`, variables of a template's own such as enable_thinking; both objects or null. Throws
// std::invalid_argument where `own` is no object, or names what is given in another way.
Json template_kwargs(const Json& usual, const Json& own);

// data.chat_template_kwargs. UserError (exit 2).
Json usual_template_kwargs(const DataConfig&);

// Of a row: its column `tools`, a list of schemas or JSON text of one, else data.tools; and its column
// `chat_template_kwargs` over data.chat_template_kwargs.
class ChatColumns {
 public:
  explicit ChatColumns(const FormatContext&);
  // A row whose tools are null has none.
  ChatInputs of(const Json& row, const Place& at) const;
  // For a row of plain text in the run's only dataset: UserError (exit 2) where one of the settings is given.
  void require_unused(const Place& at) const;

 private:
  Json tools_of(const Json& row, const Place& at) const;

  std::string tools_name_, kwargs_name_;
  Json tools_, kwargs_;
  std::vector<std::string_view> given_;  // FormatContext::chat_settings
};

}  // namespace ft
