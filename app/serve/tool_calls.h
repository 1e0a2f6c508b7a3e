// Calls of tools in an answer, as the usual families write them: <tool_call>{...}</tool_call> (Hermes, Qwen),
// {"name": ..., "parameters": ...} alone, perhaps behind <|python_tag|> (Llama 3), and behind [TOOL_CALLS] a
// list, or NAME[ARGS]{...} (Mistral).
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace ft {

struct ToolCall {
  std::string name, arguments;  // arguments: JSON text of an object
};
struct CallingAnswer {
  std::string content;  // before the calls
  std::vector<ToolCall> calls;
};

// `answer`: with its special tokens. Without calls in it, or where one cannot be read, there are none.
// `names`: of the tools; only they are looked for where nothing but JSON marks a call.
CallingAnswer find_calls(const std::string& answer, const std::vector<std::string>& names);

// An answer on its way to a stream, from which calls are held back.
class CallGate {
 public:
  // The text that is certainly no call.
  std::string add(const std::string& piece);
  // The rest, when the answer is over and has no calls.
  std::string finish();

 private:
  std::string text_;
  std::size_t shown_ = 0;
};

}  // namespace ft
