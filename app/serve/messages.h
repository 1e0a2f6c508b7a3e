// The conversation of a request: its messages, and the tools that its answer may call.
#pragma once
#include <string>
#include <vector>

#include "app/serve/fields.h"
#include "data/chat/chat_turns.h"

namespace ft {

struct ToolUse {
  std::vector<std::string> names;  // of functions that an answer may call; empty: none
  bool parallel = true;            // several at once
};

// Throws ApiError. `bytes`: of the request.
ChatTurns read_turns(Fields&, std::size_t bytes);
// Adds the tools to the conversation, for the chat template.
ToolUse read_tools(Fields&, ChatTurns&);

}  // namespace ft
