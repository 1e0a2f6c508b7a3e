// Parts of a message that say themselves if they are trained.
#include "data/chat/said_parts.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "data/tokenizers/token_spans.h"
#include "tests/data/loaded_rows.h"

namespace ft::parts {
namespace {

const std::string kPlain =
    "{% for m in messages %}{{ m.role }}:{{ m.content }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}";
const std::string kMarked =
    "{% for m in messages %}{{ m.role }}:{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
    "{{ eos_token }}{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}";

class SaidPartsTest : public test::LoadedRows {
 protected:
  std::string of(const std::string& row) { return trained(load(row)); }
  // A question and its answer of two parts.
  static std::string chat(const std::string& first, const std::string& second, const std::string& more = "") {
    return R"({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": [)"
           R"({"type": "text", "text": "Ada")" +
           first + R"(}, {"type": "text", "text": " has")" + second + "}]" + more + "}]}";
  }
  static std::string asked(const std::string& parts) {
    return R"({"messages": [{"role": "user", "content": )" + parts +
           R"(}, {"role": "assistant", "content": "has"}]})";
  }
};

const std::string kOut = R"(, "train": false)", kAlsoOut = R"(, "weight": 0)", kIn = R"(, "train": true)";

TEST_F(SaidPartsTest, APartIsTrainedAsItSays) {
  for (const std::string& chat_template : {kPlain, kMarked, std::string("plain")}) {
    config.chat_template = chat_template;
    const std::string end = chat_template == "plain" ? "|" : "";  // a line feed behind the end
    EXPECT_EQ(of(chat(kIn, kIn)), "|Ada has</s>" + end) << chat_template;
    EXPECT_EQ(of(chat(kOut, "")), "| has</s>" + end) << chat_template;
    EXPECT_EQ(of(chat(kAlsoOut, kIn)), "| has</s>" + end) << chat_template;
    EXPECT_EQ(of(chat("", kOut)), "|Ada|") << chat_template << ": the end is trained as the last part";
    EXPECT_EQ(of(chat(kIn, "", kOut)), "|Ada|") << chat_template << ": the other part is as its message";
  }
}

TEST_F(SaidPartsTest, EveryEndIsTrainedIfTheSettingSaysSo) {
  config.chat_template = kPlain;
  config.train_on_eos = TrainOnEos::all;
  EXPECT_TRUE(of(chat("", kOut)).ends_with("|Ada|</s>")) << of(chat("", kOut));
}

TEST_F(SaidPartsTest, PartsOfOtherRoles) {
  config.chat_template = kPlain;
  const std::string parts = R"([{"text": "x"}, {"text": " Ada", "train": true}])";
  EXPECT_EQ(of(asked(parts)), "| Ada</s>|has</s>");
  config.train_on_inputs = true;
  EXPECT_EQ(of(asked(R"([{"text": "x"}, {"text": " Ada", "train": false}])")).find("Ada"), std::string::npos);
  config.train_on_inputs = false;
  config.chat_template = kMarked;
  EXPECT_EQ(
      error(asked(parts)),
      "t.jsonl:1: messages: message 1: \"train\" and \"weight\" of its parts have no effect, because the "
      "chat template does not write their text once and in one piece; take them out, or the row");
}

TEST_F(SaidPartsTest, PartsOfAPromptAndItsAnswer) {
  config.chat_template = kPlain;
  const auto row = [&](const std::string& flag) {
    return of(R"({"prompt": [{"role": "user", "content": "x"}], "completion": [{"role": "assistant", )"
              R"("content": [{"text": "Ada")" +
              flag + R"(}, {"text": " has"}]}]})");
  };
  EXPECT_EQ(row(kOut), "| has</s>");
  EXPECT_EQ(row(kIn), "|Ada has</s>");
}

TEST_F(SaidPartsTest, PartsThatCannotBeObeyedAreRefused) {
  const std::string no_effect =
      "t.jsonl:1: messages: message 2: \"train\" and \"weight\" of its parts have no effect, because the "
      "chat "
      "template does not write their text once and in one piece; take them out, or the row";
  for (const char* wrote : {"{{ m.content | upper }}", "{{ m.content }}{{ m.content }}"}) {
    config.chat_template = "{% for m in messages %}{{ m.role }}:" + std::string(wrote) +
                           "{{ eos_token }}{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}";
    EXPECT_EQ(error(chat(kOut, "")), no_effect) << wrote;
  }
  config.chat_template = kPlain;
  EXPECT_EQ(error(chat(R"(, "train": 3)", "")),
            "t.jsonl:1: messages[1].content[0].train: must be true or false, is 3");
  EXPECT_EQ(
      error(asked(R"([{"type": "image"}, {"text": "x", "weight": 1}])")),
      "t.jsonl:1: messages[0].content: has \"train\" or \"weight\" at a part, so that all must be texts, "
      "but one is an object of 1 key");
  config.reasoning_content = ReasoningContent::into_content;
  EXPECT_EQ(
      error(chat(kOut, "", R"(, "thinking": "y")")),
      "t.jsonl:1: messages: message 2: data.reasoning_content would change its content, whose parts have "
      "\"train\" or \"weight\"; take one of them out");
  config.reasoning_content.reset();
  wanted = {.kind = RowKind::pair, .objective = "dpo"};
  EXPECT_EQ(
      error(R"({"prompt": [{"role": "user", "content": "x"}], "chosen": [{"role": "assistant", "content": [)"
            R"({"text": "Ada", "train": false}]}], "rejected": [{"role": "assistant", "content": "has"}]})"),
      "t.jsonl:1: chosen[0]: \"weight\": 0 and \"train\": false have no effect, because complete "
      "answers are compared; take the key out, or the row");
}

TEST_F(SaidPartsTest, ARowWithoutTargetsSaysWhy) {
  config.chat_template = kPlain;
  const std::string why = error(chat(kOut, kOut));
  EXPECT_NE(why.find("message 2 has \"weight\": 0 or \"train\": false"), std::string::npos) << why;
}

// A token is trained if a byte of it is in a part that is, or in the end of a message whose last part is.
TEST_F(SaidPartsTest, RandomPartsAgainstTheBytesOfTokens) {
  config.chat_template = kPlain;
  std::mt19937 random(5);
  int mixed = 0;
  for (int i = 0; i < 300; ++i) {
    std::string parts, want_text = "user:x</s>assistant:", flags(want_text.size(), '0');
    const int count = 1 + static_cast<int>(random() % 5);
    char flag = '1';
    for (int p = 0; p < count; ++p) {
      std::string text(1, "abh"[random() % 3]);
      for (int n = static_cast<int>(random() % 6); n > 0; --n) text += "Adhs "[random() % 5];
      text += 's';
      const auto said = random() % 3;  // 2: nothing, as the message
      flag = said == 0 ? '0' : '1';
      if (p == 0 || said < 2)
        parts += (p > 0 ? ", " : "") + std::string(R"({"text": ")") + text +
                 "\", \"train\": " + (flag == '1' ? "true}" : "false}");
      else
        parts += R"(, {"text": ")" + text + "\"}";
      want_text += text;
      flags += std::string(text.size(), flag);
    }
    want_text += "</s>";
    flags += std::string(4, flag);
    const std::string row =
        R"({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": [)" + parts +
        "]}]}";
    if (flags.find('1') == flags.npos) continue;
    const Dataset data = load(row);
    const auto spans = token_spans(*tokenizer, data[0].input_ids, want_text);
    ASSERT_TRUE(spans.has_value()) << row;
    for (std::size_t t = 1; t < spans->size(); ++t) {
      const auto [begin, end] = (*spans)[t];
      const bool want = flags.substr(begin, end - begin).find('1') != std::string::npos;
      EXPECT_EQ(data[0].labels[t] != kIgnored, want) << row << " token " << t;
    }
    mixed += flags.find("01") != flags.npos && flags.find("10") != flags.npos;
  }
  EXPECT_GT(mixed, 50);
}

}  // namespace
}  // namespace ft::parts
