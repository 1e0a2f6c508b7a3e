// Tool calls in the answers of the usual model families.
#include "app/serve/tool_calls.h"

#include <gtest/gtest.h>

namespace ft {
namespace {

const std::vector<std::string> kNames{"weather", "stamps"};

// Returns the content, followed by "|NAME ARGUMENTS" for each call.
std::string found(const std::string& answer) {
  const CallingAnswer a = find_calls(answer, kNames);
  std::string all = a.content;
  for (const ToolCall& c : a.calls) all += "|" + c.name + " " + c.arguments;
  return all;
}

TEST(ToolCalls, Hermes) {
  EXPECT_EQ(found("<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>"),
            "|weather {\"city\":\"Oslo\"}");
  EXPECT_EQ(found("I look.\n<tool_call>{\"name\": \"weather\", \"arguments\": {}}</tool_call>\n<tool_call>\n"
                  "{\"name\": \"other\", \"arguments\": {\"a\": \"} </tool_call>\"}}"),
            "I look.|weather {}|other {\"a\":\"} </tool_call>\"}");
  EXPECT_EQ(found("<tool_call>{\"name\": \"weather\", \"arguments\": {"), "");
  EXPECT_EQ(found("<tool_call>{'name': 'weather'}</tool_call>"), "");
}

TEST(ToolCalls, Llama3) {
  EXPECT_EQ(found("{\"name\": \"weather\", \"parameters\": {\"days\": 3}}<|eom_id|>"),
            "|weather {\"days\":3}");
  EXPECT_EQ(found("<|python_tag|>{\"type\": \"function\", \"name\": \"weather\", \"parameters\": {}}; "
                  "{\"name\": \"stamps\", \"parameters\": {}}"),
            "|weather {}|stamps {}");
  EXPECT_EQ(found("{\"name\": \"Ada\", \"parameters\": {}}"),
            "");  // an answer in JSON: "Ada" is not a tool
  EXPECT_EQ(found("{\"name\": \"weather\", \"parameters\": {}} is how to ask."), "");
  EXPECT_EQ(found("The sky is blue."), "");
}

TEST(ToolCalls, Mistral) {
  EXPECT_EQ(found("[TOOL_CALLS] [{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}, "
                  "{\"name\": \"stamps\", \"arguments\": {\"owner\": \"Bo\"}}]</s>"),
            "|weather {\"city\":\"Oslo\"}|stamps {\"owner\":\"Bo\"}");
  EXPECT_EQ(found("[TOOL_CALLS] [{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}, "
                  "{\"name\": \"stamps\", \"arguments\": {\"owner\": \"Bo\"}}]"),
            "|weather {\"city\":\"Oslo\"}|stamps {\"owner\":\"Bo\"}");
  EXPECT_EQ(found("Well.[TOOL_CALLS]weather[ARGS]{\"city\": \"Oslo\"}[TOOL_CALLS]stamps[ARGS]{}"),
            "Well.|weather {\"city\":\"Oslo\"}|stamps {}");
  EXPECT_EQ(found("[{\"name\": \"weather\", \"arguments\": {}}]"),
            "|weather {}");  // in this tokenizer [TOOL_CALLS] is not a token
}

TEST(ToolCalls, ArgumentsMayBeText) {
  EXPECT_EQ(found("<tool_call>{\"name\": \"weather\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>"),
            "|weather {\"a\": 1}");
}

TEST(CallGate, HoldsBackOnlyCalls) {
  const auto shown = [](const std::string& text) {
    CallGate gate;
    std::string all;
    for (const char c : text) all += gate.add({c});
    return all;
  };
  EXPECT_EQ(shown("I look.<tool_call>{}"), "I look.");
  EXPECT_EQ(shown("a < b <too"), "a < b ");
  EXPECT_EQ(shown(" {\"name\""), "");
  EXPECT_EQ(shown("x [TOOL_CALLS]y"), "x ");
  CallGate gate;
  EXPECT_EQ(gate.add("a <tool"), "a ");
  EXPECT_EQ(gate.add("s>"), "<tools>");
  EXPECT_EQ(gate.add(" <"), " ");
  EXPECT_EQ(gate.finish(), "<");
}

}  // namespace
}  // namespace ft
