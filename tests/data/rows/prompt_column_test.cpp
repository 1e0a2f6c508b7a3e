// Prompts in columns with usual names, and pairs whose answers are complete conversations.
#include "data/rows/prompt_column.h"

#include "tests/data/loaded_rows.h"

namespace ft {
namespace {

using Ids = std::vector<std::int32_t>;

class PromptColumnTest : public test::LoadedRows {
 protected:
  static Ids prompt_of(const Dataset& data) {
    const auto view = data[0];
    const auto answer =
        std::find_if(view.labels.begin(), view.labels.end(), [](auto l) { return l != kIgnored; });
    return {view.input_ids.begin(), view.input_ids.begin() + (answer - view.labels.begin())};
  }
  Ids ids(const std::string& text) const { return tokenizer->encode_with_specials(text); }
};

TEST_F(PromptColumnTest, OfAPairIsFoundByItsUsualNames) {
  wanted = {.kind = RowKind::pair, .objective = "dpo"};
  const std::string answers = R"("chosen": " x", "rejected": " y"})";
  for (const char* name : {"prompt", "question", "instruction"})
    EXPECT_EQ(prompt_of(load("{\"" + std::string(name) + "\": \"Ada has\", " + answers)), ids("Ada has"))
        << name;
  EXPECT_EQ(prompt_of(load(R"({"instruction": "Ada", "input": "has", )" + answers)), ids("Ada\nhas"));
  EXPECT_EQ(prompt_of(load(R"({"instruction": "Ada", "input": "", )" + answers)), ids("Ada"));
  EXPECT_TRUE(notes.empty());
  config.datasets[0].columns = {{"prompt", "ask"}};
  EXPECT_EQ(prompt_of(load(R"({"ask": "Ada", "question": "has", )" + answers)), ids("Ada"));
}

TEST_F(PromptColumnTest, OfOtherRows) {
  const auto example = [&](const std::string& row) { return prompt_of(load(row)); };
  EXPECT_EQ(example(R"({"instruction": "Ada", "input": "has", "chosen": "x", "rejected": "y"})"),
            ids("Ada\nhas"));
  EXPECT_EQ(example(R"({"chosen": "Ada x", "rejected": "Ada y"})"), ids("Ada")) << "the shared beginning";
  wanted = {.kind = RowKind::labelled, .objective = "kto"};
  EXPECT_EQ(prompt_of(load(R"({"question": "Ada", "completion": " x", "label": true})")), ids("Ada"));
  wanted = {.kind = RowKind::prompt, .objective = "grpo"};
  const Dataset prompts = load(R"({"question": "Ada has", "answer": "12"})");
  EXPECT_EQ(Ids(prompts[0].input_ids.begin(), prompts[0].input_ids.end()), ids("Ada has"));
}

const std::string kAsk = R"({"role": "user", "content": "has"})";

std::string chats(const std::string& before) {
  return R"("chosen": [)" + before + R"({"role": "assistant", "content": "Ada"}], "rejected": [)" + before +
         R"({"role": "assistant", "content": "x"}]})";
}

TEST_F(PromptColumnTest, ATextBesideCompleteConversationsIsSkipped) {
  config.chat_template =
      "{% for m in messages %}{{ m.role }}:{{ m.content }}{{ eos_token }}{% endfor %}"
      "{% if add_generation_prompt %}assistant:{% endif %}";
  const Ids want = tokenizer->encode("user:has</s>assistant:");
  for (const WantedRows& rows : {WantedRows{.kind = RowKind::pair, .objective = "dpo"}, WantedRows{}}) {
    wanted = rows;
    EXPECT_EQ(prompt_of(load(R"({"prompt": "has", )" + chats(kAsk + ", "))), want);
    EXPECT_EQ(prompt_of(load("{" + chats(kAsk + ", "))), want);
    EXPECT_EQ(prompt_of(load(R"({"prompt": [)" + kAsk + "], " + chats(""))), want);
    EXPECT_EQ(prompt_of(load(R"({"prompt": "has", )" + chats(""))), want) << "a text before answers alone";
  }
  EXPECT_EQ(prompt_of(load(R"({"prompt": "has", "chosen": [)" + kAsk +
                           R"(, {"role": "assistant", "content": "Ada"}],)"
                           R"( "rejected": null})")),
            want);
}

}  // namespace
}  // namespace ft
