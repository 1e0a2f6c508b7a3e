// Rows of type alpaca_chat: Alpaca's columns, written by the chat template.
#include "data/row_formats.h"
#include "tests/data/loaded_rows.h"

namespace ft {
namespace {

class AlpacaChatTest : public test::LoadedRows {
 protected:
  AlpacaChatTest() {
    config.datasets[0].type = &row_formats::kAlpacaChat;
    config.chat_template =
        "{% for m in messages %}{{ m.role }}:{{ m.content }}{{ eos_token }}{% endfor %}"
        "{% if add_generation_prompt %}assistant:{% endif %}";
    config.prompt_template = PromptTemplate::none;
  }
};

TEST_F(AlpacaChatTest, TheInstructionIsTheUsersMessage) {
  const Dataset data = load(R"({"instruction": "Ada", "input": "x", "output": "has"})");
  EXPECT_EQ(text_of(data), "user:Ada\nx</s> assistant:has</s>");
  EXPECT_EQ(trained(data), "|has</s>");
  EXPECT_EQ(text_of(load(R"({"instruction": "Ada", "input": "", "output": "has"})")),
            "user:Ada</s> assistant:has</s>");
  EXPECT_EQ(text_of(load(R"({"instruction": "Ada", "output": "has", "system": "x"})")),
            "system:x</s> user:Ada</s> assistant:has</s>");
}

TEST_F(AlpacaChatTest, StanfordsWordsAndRenamedColumns) {
  config.prompt_template = PromptTemplate::alpaca;
  config.datasets[0].columns = {{"instruction", "q"}, {"output", "a"}, {"input", ""}};
  const std::string text = text_of(load(R"({"q": "Ada", "a": "has", "input": "y"})"));
  EXPECT_EQ(text,
            "user:Below is an instruction that describes a task. Write a response that appropriately "
            "completes the request.\n\n### Instruction:\nAda\n\n### Response:</s> assistant:has</s>");
}

TEST_F(AlpacaChatTest, MistakesNameThePlace) {
  EXPECT_EQ(error(R"({"instruction": "Ada"})"), "t.jsonl:1: no \"output\"");
  EXPECT_EQ(error(R"({"instruction": ["Ada"], "output": "has"})"),
            "t.jsonl:1: instruction: must be a string, is [\"Ada\"]");
  config.chat_template = "{{ raise_exception('no') }}";
  EXPECT_NE(error(R"({"instruction": "Ada", "output": "has"})").find("t.jsonl:1: instruction: "),
            std::string::npos);
}

// LLaMA-Factory's pairs: one message with from and value for each answer.
TEST_F(AlpacaChatTest, PairsOfSingleMessages) {
  config.datasets[0].type = &row_formats::kPreference;
  wanted = {.kind = RowKind::pair, .objective = "dpo"};
  const std::string list =
      R"({"prompt": [{"role": "user", "content": "Ada"}], "chosen": [{"role": "assistant",
      "content": "has"}], "rejected": [{"role": "assistant", "content": "x"}]})";
  const std::string single = R"({"prompt": [{"from": "human", "value": "Ada"}], "chosen": {"from": "gpt",
      "value": "has"}, "rejected": {"from": "gpt", "value": "x"}})";
  const auto flat = [](std::string text) {
    std::erase(text, '\n');
    return text;
  };
  const Dataset a = load(flat(list));
  const std::string wanted_text = text_of(a);
  EXPECT_NE(wanted_text.find("Ada"), std::string::npos);
  EXPECT_EQ(text_of(load(flat(single))), wanted_text);
}

}  // namespace
}  // namespace ft
