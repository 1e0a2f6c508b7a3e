// Finds calls of tools in an answer, in the forms of the usual model families: <tool_call>{...}</tool_call>
// (Hermes, Qwen); {"name": ..., "parameters": ...} alone or after <|python_tag|> (Llama 3); a list or
// NAME[ARGS]{...} after [TOOL_CALLS] (Mistral).
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace ft {

struct ToolCall {
  std::string name, arguments;  // `arguments`: JSON text of an object
};
struct CallingAnswer {
  std::string content;  // text before the calls
  std::vector<ToolCall> calls;
};

// Finds the calls. `answer`: with its special tokens. Returns none if the answer has none or one cannot be
// read. `names`: the tools; if only JSON marks a call, calls of other names do not count.
CallingAnswer find_calls(const std::string& answer, const std::vector<std::string>& names);

// Holds back possible calls in an answer that is streamed.
class CallGate {
 public:
  // Adds text. Returns the text that is certainly not part of a call.
  std::string add(const std::string& piece);
  // Returns the rest; call it at the end of an answer without calls.
  std::string finish();

 private:
  std::string text_;
  std::size_t shown_ = 0;
};

}  // namespace ft
