// Inputs of a chat template in addition to a conversation's messages.
#pragma once
#include <string>

#include "data/chat/chat_turns.h"
#include "data/rows/format.h"
#include "engine/files/json.h"

namespace ft {

// Merges the template's variables such as enable_thinking; `own` overrides `usual`. Both are objects or null.
// Throws std::invalid_argument if `own` is no object, or names an argument that is set in another way.
Json template_kwargs(const Json& usual, const Json& own);

// Returns data.chat_template_kwargs. Throws UserError (config) if it is not valid.
Json usual_template_kwargs(const DataConfig&);

// Reads a row's inputs. The column `tools` holds a list of schemas, or such a list as JSON text; without it
// data.tools is used. The column `chat_template_kwargs` overrides data.chat_template_kwargs.
class ChatColumns {
 public:
  explicit ChatColumns(const FormatContext&);
  // Returns a row's inputs. A row whose tools are null has no tools.
  ChatInputs of(const Json& row, const Place& at) const;
  // Called for a row of plain text in the run's only dataset. Throws UserError (config) if one of the
  // settings is given.
  void require_unused(const Place& at) const;

 private:
  Json tools_of(const Json& row, const Place& at) const;

  std::string tools_name_, kwargs_name_;
  Json tools_, kwargs_;
  std::vector<std::string_view> given_;  // FormatContext::chat_settings
};

}  // namespace ft
