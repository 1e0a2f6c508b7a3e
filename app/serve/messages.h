// Reads the conversation of a request: its messages, and the tools that its answer may call.
#pragma once
#include <string>
#include <vector>

#include "app/serve/fields.h"
#include "data/chat/chat_turns.h"

namespace ft {

struct ToolUse {
  std::vector<std::string> names;  // functions that an answer may call; empty: none
  bool parallel = true;            // an answer may call several at once
};

// Reads the messages. `bytes`: size of the request. Throws ApiError.
ChatTurns read_turns(Fields&, std::size_t bytes);
// Adds the tools to the conversation, for the chat template.
ToolUse read_tools(Fields&, ChatTurns&);

}  // namespace ft
