// The choice of a conversation's trained messages: by their own keys, by roles, by the template.
#include "data/chat/trained_chat.h"

#include "tests/data/loaded_rows.h"

namespace ft {
namespace {

class TrainedChatTest : public test::LoadedRows {
 protected:
  std::string of(const std::string& row) { return trained(load(row)); }
};

std::string message(const std::string& role, const std::string& content, const std::string& more = "") {
  return R"({"role": ")" + role + R"(", "content": ")" + content + "\"" + more + "}";
}

std::string chat(const std::string& first_answer, const std::string& second_answer = "") {
  return R"({"messages": [)" + message("user", "x") + ", " + message("assistant", "Ada", first_answer) +
         ", " + message("user", "y") + ", " + message("assistant", "has", second_answer) + "]}";
}

const std::string kOut = R"(, "weight": 0)", kAlsoOut = R"(, "train": false)", kIn = R"(, "train": true)";
const std::string kPlain =
    "{% for m in messages %}{{ m.role }}:{{ m.content }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}";
const std::string kMarked =
    "{% for m in messages %}{{ m.role }}:{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
    "{{ eos_token }}{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}";

TEST_F(TrainedChatTest, WeightsHoldWithEveryTemplate) {
  for (const std::string& chat_template : {kPlain, kMarked}) {
    config.chat_template = chat_template;
    const std::string both = of(chat("")), last = of(chat(kOut));
    EXPECT_NE(both.find("Ada"), std::string::npos) << chat_template;
    EXPECT_EQ(last.find("Ada"), std::string::npos) << chat_template;
    EXPECT_TRUE(last.ends_with("has</s>")) << last;
    EXPECT_EQ(of(chat(kAlsoOut)), last);
    EXPECT_EQ(of(chat("", kOut)).find("has"), std::string::npos);
    EXPECT_EQ(of(chat(R"(, "weight": 1)")), both);
  }
}

// If the template marks only the last answer as generated, its blocks cannot be matched to answers by number.
TEST_F(TrainedChatTest, AWeightThatCannotBeObeyedIsRefused) {
  config.chat_template =
      "{% for m in messages %}{% if loop.last %}{% generation %}{{ m.content }}{% endgeneration %}{% else %}"
      "{{ m.content }}{% endif %}{% endfor %}";
  EXPECT_EQ(
      error(chat(kOut)),
      "t.jsonl:1: messages: message 2: \"weight\": 0 and \"train\": false have no effect, because the chat "
      "template does not show which part of its text is this message; take the key out, or the row");
}

TEST_F(TrainedChatTest, WeightsHoldWhereInputsAreTrainedToo) {
  config.train_on_inputs = true;
  config.chat_template = kPlain;
  EXPECT_EQ(of(chat("")).find('|', 1), std::string::npos);
  const std::string without = of(chat(kOut));
  EXPECT_EQ(without.find("Ada"), std::string::npos) << without;
  EXPECT_NE(without.find('y'), std::string::npos) << without;
}

TEST_F(TrainedChatTest, WeightsOfAPromptAndItsAnswer) {
  config.chat_template = kPlain;
  const auto row = [&](const std::string& prompt, const std::string& answer) {
    return of(R"({"prompt": [)" + message("user", "x") + ", " + message("assistant", "Ada", prompt) + ", " +
              message("user", "y") + R"(], "completion": [)" + message("assistant", "has", answer) + ", " +
              message("user", "y") + ", " + message("assistant", "has") + "]}");
  };
  EXPECT_EQ(row("", ""), "|has</s> user:y</s> assistant:has</s>") << "as in TRL, all behind the prompt";
  EXPECT_EQ(row("", kOut), "|has</s>");
  EXPECT_EQ(row(kOut, ""), row("", ""));
  EXPECT_NE(row(kIn, "").find("Ada"), std::string::npos);
}

TEST_F(TrainedChatTest, WeightsOfAnswersThatAreComparedAreRefused) {
  wanted = {.kind = RowKind::pair, .objective = "dpo"};
  config.chat_template = kPlain;
  const auto row = [&](const std::string& more) {
    return R"({"prompt": [)" + message("user", "x") + R"(], "chosen": [)" +
           message("assistant", "Ada", more) + R"(], "rejected": [)" + message("assistant", "has") + "]}";
  };
  EXPECT_EQ(load(row(R"(, "weight": 1)")).size(), 1);
  EXPECT_EQ(error(row(kOut)),
            "t.jsonl:1: chosen[0]: \"weight\": 0 and \"train\": false have no effect, because complete "
            "answers are compared; take the key out, or the row");
}

// A generation prompt like DeepSeek-R1's: it opens a thought, but answers in the conversation are written
// without one.
const std::string kOpened =
    "{% for m in messages %}{{ m.role }}:{{ m.content }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}assistant:zzz{% endif %}";

TEST_F(TrainedChatTest, AnswersThatDoNotBeginWithTheGenerationPrompt) {
  config.chat_template = kPlain;
  const std::string want = of(chat(""));
  config.chat_template = kOpened;
  EXPECT_EQ(of(chat("")), want);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0],
            "the chat template's generation prompt is not the beginning of 2 of 2 answers; they are trained "
            "from the first token that differs: t.jsonl:1: message 2; t.jsonl:1: message 4");
}

TEST_F(TrainedChatTest, ARowTrainsOnlyTurnsThatStayTheSame) {
  config.chat_template =
      "{% for m in messages %}{{ m.role }}:{{ 'zzz' if loop.last and m.role == 'assistant' }}{{ m.content "
      "}}{{ eos_token }}{% endfor %}"
      "{% if add_generation_prompt %}assistant:zzz{% endif %}";
  EXPECT_EQ(of(chat("")), "|has</s>");
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("(1 of 2 turns): t.jsonl:1: message 2"), std::string::npos) << notes[0];
}

TEST_F(TrainedChatTest, ARowWithoutTargetsSaysWhy) {
  const auto why = [&](const std::string& row) {
    const std::string text = error(row), begin = "t.jsonl: nothing to train on in all 1 rows: t.jsonl:1: ";
    EXPECT_TRUE(text.starts_with(begin)) << text;
    return text.substr(std::min(begin.size(), text.size()));
  };
  config.chat_template = kPlain;
  EXPECT_EQ(why(R"({"messages": [)" + message("user", "x") + ", " + message("user", "y") + "]}"),
            "none of its 2 messages has a role that is trained (data.roles_to_train: assistant)");
  EXPECT_EQ(why(chat(kOut, kAlsoOut)),
            "message 2 has \"weight\": 0 or \"train\": false, and no other has a role that is trained "
            "(data.roles_to_train: assistant)");
  config.chat_template = "{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}";
  EXPECT_EQ(why(chat("")),
            "message 2: the chat template writes it in another way when more messages follow, or not at all");
  config.chat_template =
      "{% for m in messages %}{{ m.content }}{% if 0 %}{% generation %}{% endgeneration %}"
      "{% endif %}{% endfor %}";
  EXPECT_EQ(why(chat("")), "message 2: the chat template's {% generation %} blocks do not contain it");
  config.chat_template = kPlain;
  config.max_seq_length = 2;
  EXPECT_EQ(why(chat("")), "the part to train on was cut off by data.max_seq_length (2)");
}

}  // namespace
}  // namespace ft
