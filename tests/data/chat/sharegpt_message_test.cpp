// Turns of ShareGPT's conversations: every one reaches the template or is refused.
#include "data/chat/sharegpt_message.h"

#include <nlohmann/json.hpp>

#include "tests/data/loaded_rows.h"

namespace ft {
namespace {

class ShareGptTest : public test::LoadedRows {
 protected:
  ShareGptTest() {
    config.chat_template =
        "{% for m in messages %}{{ m.role }}:{{ m.content }}"
        "{% for c in m.tool_calls or [] %}{{ c | tojson }}{% endfor %}{{ eos_token }}{% endfor %}"
        "{% if add_generation_prompt %}assistant:{% endif %}";
  }
  std::string written(const std::string& turns) {
    return text_of(load(R"({"conversations": [)" + turns + "]}"));
  }
  // Returns the text after encoding and decoding.
  std::string read_back(const std::string& text) { return tokenizer->decode(tokenizer->encode(text), false); }
  std::string wrong(const std::string& turns) { return error(R"({"conversations": [)" + turns + "]}"); }
};

const std::string kHuman = R"({"from": "human", "value": "has"}, )",
                  kModel = R"({"from": "gpt", "value": "Ada"})";

TEST_F(ShareGptTest, CallsAndAnswersOfToolsAreTurns) {
  const std::string call = R"({"type": "function", "function": {"name": "ada", "arguments": {"n": 1}}})";
  const std::string want = read_back("user:has</s>assistant:" + call + "</s>tool:12</s>assistant:Ada</s>");
  const std::string end = R"({"from": "observation", "value": "12"}, )" + kModel;
  const auto with = [&](const std::string& value) {
    return written(kHuman + R"({"from": "function_call", "value": )" + value + "}, " + end);
  };
  EXPECT_EQ(with(R"("{\"name\": \"ada\", \"arguments\": {\"n\": 1}}")"), want);
  EXPECT_EQ(with(R"("{\"name\": \"ada\", \"arguments\": \"{\\\"n\\\": 1}\"}")"), want)
      << "arguments as a text";
  EXPECT_EQ(with(R"("[{\"name\": \"ada\", \"arguments\": {\"n\": 1}}]")"), want) << "a list of calls";
  EXPECT_EQ(with(R"({"name": "ada", "arguments": {"n": 1}})"), want) << "a call that is no text";
  EXPECT_EQ(with("\"" + std::string(R"({\"type\": \"function\", \"function\": {\"name\": \"ada\", )") +
                 R"(\"arguments\": {\"n\": 1}}})" + "\""),
            want);
  EXPECT_NE(trained(load(R"({"conversations": [)" + kHuman +
                         R"({"from": "tool_call", "value": "{\"name\": \"has\"}"}]})"))
                .find("has"),
            std::string::npos)
      << "calls are trained";
}

TEST_F(ShareGptTest, OtherRolesAreRefused) {
  EXPECT_EQ(wrong(kHuman + R"({"from": "narrator", "value": "x"}, )" + kModel),
            "t.jsonl:1: conversations[1].from: unknown role \"narrator\"; known are human, gpt, system, "
            "function_call and observation");
  EXPECT_EQ(
      wrong(kHuman + R"({"from": "function_call", "value": "no"})"),
      "t.jsonl:1: conversations[1].value (function_call): must be JSON of a call of a tool, or of a list of "
      "calls, is \"no\"");
  EXPECT_EQ(wrong(kHuman + R"({"from": "function_call", "value": "[3]"})"),
            "t.jsonl:1: conversations[1].value (function_call): a call of a tool is {\"name\": text, "
            "\"arguments\": {...}}, is 3");
  EXPECT_EQ(wrong(kHuman + R"({"value": "no"})"), "t.jsonl:1: conversations[1].from: must be a string");
}

TEST_F(ShareGptTest, EitherListTakesEitherForm) {
  const std::string text = "user:has</s>assistant:Ada</s>", want = read_back(text);
  const std::string roles = R"({"role": "user", "content": "has"}, {"role": "assistant", "content": "Ada"})";
  EXPECT_EQ(written(kHuman + kModel), want);
  EXPECT_EQ(written(roles), want);
  EXPECT_EQ(text_of(load(R"({"messages": [)" + kHuman + kModel + "]}")), want);
  EXPECT_EQ(text_of(load(R"({"system": "Ada", "conversations": [)" + roles + "]}")),
            read_back("system:Ada</s>" + text));
}

// A template that knows only some roles leaves out messages of others.
TEST_F(ShareGptTest, AMessageThatTheTemplateLeavesOutIsRefused) {
  config.chat_template =
      "{% for m in messages %}{% if m.role in ['user', 'assistant'] %}{{ m.content }}{{ eos_token }}{% endif "
      "%}"
      "{% endfor %}";
  EXPECT_EQ(
      error(R"({"messages": [{"role": "critic", "content": "x"}, {"role": "assistant", "content": "Ada"}]})"),
      "t.jsonl:1: messages: message 1: the chat template leaves out messages of role \"critic\"");
}

}  // namespace
}  // namespace ft
