// Treatment of thoughts: moved, dropped, left out of the loss if they are empty; history that is not trained.
#include "data/chat/reasoning.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <regex>

#include "data/chat/chat_sample.h"
#include "tests/data/loaded_rows.h"

namespace ft::thoughts {
namespace {

using enum ReasoningContent;

std::vector<Json> arranged_by(ReasoningContent rule, std::vector<Json> messages,
                              const std::string& key = "reasoning_content") {
  arrange_reasoning(messages, rule, key);
  return messages;
}

Json answer(const std::string& content, const Json& more = Json::object()) {
  Json message{{"role", "assistant"}, {"content", content}};
  message.update(more);
  return message;
}

std::string refusal_of(ReasoningContent rule, const Json& message, const std::string& key = "thinking") {
  try {
    arranged_by(rule, {message}, key);
  } catch (const std::invalid_argument& wrong) {
    return wrong.what();
  }
  return "nothing wrong";
}

TEST(Reasoning, SplitMovesThoughtsToTheTemplatesKey) {
  const std::vector<Json> want{answer("Ada", {{"reasoning_content", "a b"}})};
  EXPECT_EQ(arranged_by(split, {answer("<think>\na b\n</think>\n\nAda")}), want);
  EXPECT_EQ(arranged_by(split, {answer(" <think>a b</think>Ada")}), want);
  EXPECT_EQ(arranged_by(split, {answer("a b\n</think>\n\nAda")}), want) << "the prompt opened the thought";
  EXPECT_EQ(arranged_by(split, {answer("Ada", {{"thinking", "a b"}})}), want);
  EXPECT_EQ(arranged_by(split, want), want);
  EXPECT_EQ(arranged_by(split, {answer("<think>a b</think>Ada")}, "thinking"),
            std::vector<Json>{answer("Ada", {{"thinking", "a b"}})});
  EXPECT_EQ(arranged_by(split, {answer("<think>\n\n</think>\n\nAda")}), std::vector<Json>{answer("Ada")});
  const Json parts{
      {"role", "assistant"},
      {"content", {{{"type", "text"}, {"text", "<think>a b</think>"}}, {{"type", "text"}, {"text", "Ada"}}}}};
  EXPECT_EQ(arranged_by(split, {parts}), want);
}

TEST(Reasoning, OnlyThoughtsOfAnswersAreMoved) {
  const std::vector<Json> talk{{{"role", "user"}, {"content", "<think>a</think>b"}},
                               answer("the tag <think> begins and </think> ends a thought"),
                               answer("Ada"),
                               {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", Json::array()}}};
  for (const ReasoningContent rule : {split, into_content, drop, drop_history})
    EXPECT_EQ(arranged_by(rule, talk), talk) << name_of(rule);
}

TEST(Reasoning, InlineWritesThoughtsIntoTheContent) {
  const std::vector<Json> want{answer("<think>\na b\n</think>\n\nAda")};
  EXPECT_EQ(arranged_by(into_content, {answer("\nAda", {{"reasoning_content", "\na b\n"}})}, ""), want);
  EXPECT_EQ(arranged_by(into_content, {answer("Ada", {{"thinking", "a b"}})}, ""), want);
  EXPECT_EQ(arranged_by(into_content, want), want);
  EXPECT_EQ(arranged_by(into_content, {answer("<think>a b</think>Ada", {{"thinking", "a b"}})}), want);
  EXPECT_EQ(arranged_by(into_content, {answer("Ada", {{"thinking", ""}})}), std::vector<Json>{answer("Ada")});
}

TEST(Reasoning, DropLeavesThoughtsOut) {
  const Json thoughtful = answer("<think>a</think>Ada", {{"thinking", "a"}}), bare = answer("Ada");
  const Json user{{"role", "user"}, {"content", "x"}};
  EXPECT_EQ(arranged_by(drop, {user, thoughtful, user, thoughtful}),
            (std::vector<Json>{user, bare, user, bare}));
  EXPECT_EQ(arranged_by(drop_history, {user, thoughtful, user, thoughtful, thoughtful}),
            (std::vector<Json>{user, bare, user, thoughtful, thoughtful}));
}

TEST(Reasoning, ContradictionsAreRefused) {
  const Json both = answer("<think>a</think>Ada", {{"reasoning_content", "b"}});
  for (const ReasoningContent rule : {split, into_content})
    EXPECT_EQ(
        refusal_of(rule, both),
        "message 1: has a thought in its content and another in a key of its own (data.reasoning_content)");
  EXPECT_EQ(refusal_of(split, answer("Ada", {{"reasoning_content", "a"}, {"thinking", "b"}})),
            "message 1: has two different thoughts, in reasoning_content and in thinking "
            "(data.reasoning_content)");
  EXPECT_EQ(refusal_of(split, answer("Ada", {{"reasoning_content", "a"}, {"thinking", "a\n"}})),
            "nothing wrong");
  EXPECT_EQ(refusal_of(split, answer("Ada", {{"thinking", 3}})),
            "message 1: thinking: must be a text, is 3 (data.reasoning_content)");
  EXPECT_EQ(
      refusal_of(split, answer("Ada"), ""),
      "data.reasoning_content is split, but the chat template reads neither reasoning_content nor thinking, "
      "so that thoughts would be lost; leave it out, or set it to drop");
  Json picture = answer("", {{"thinking", "a"}});
  picture["content"] = {{{"type", "image"}}};
  EXPECT_EQ(refusal_of(into_content, picture),
            "message 1: its content is not text, so that no thought can be written into it "
            "(data.reasoning_content)");
}

TEST(Reasoning, KeysThatTemplatesRead) {
  EXPECT_EQ(reasoning_key_of("{{ message.reasoning_content }}"), "reasoning_content");
  EXPECT_EQ(reasoning_key_of("{% if \"thinking\" in message %}"), "thinking");
  EXPECT_EQ(reasoning_key_of("{{ message.thinking }}"), "thinking");
  EXPECT_EQ(reasoning_key_of("{% if enable_thinking %}{{ message.content }}{% endif %}"), "");
}

// Random thoughts and answers survive the way into the content and back.
TEST(Reasoning, InlineAndSplitAreInverse) {
  std::mt19937 random(7);
  const auto text = [&](std::string letters, int most) {
    std::string out;
    for (int n = static_cast<int>(random() % static_cast<unsigned>(most)); n > 0; --n)
      out += letters[random() % letters.size()];
    return out;
  };
  for (int i = 0; i < 500; ++i) {
    const std::string thought = "a" + text("ab\n <>", 12) + "b", said = "c" + text("cd\n <>/", 12);
    const std::vector<Json> begin{answer(said, {{"reasoning_content", thought}})};
    EXPECT_EQ(arranged_by(split, arranged_by(into_content, begin)), begin) << thought << "|" << said;
  }
}

TEST(Reasoning, EmptyThoughtsAsARegexFindsThem) {
  std::mt19937 random(11);
  const std::vector<std::string> pieces{"<think>", "</think>", "\n", " ", "a", "<think>\n\n</think>\n\n",
                                        "<"};
  const std::regex empty("<think>[ \t\r\n]*</think>[ \t\r\n]*");
  int found = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (int n = static_cast<int>(random() % 12); n > 0; --n) text += pieces[random() % pieces.size()];
    std::vector<std::pair<std::size_t, std::size_t>> want, got;
    for (std::sregex_iterator m(text.begin(), text.end(), empty), end; m != end; ++m)
      want.emplace_back(m->position(), m->position() + m->length());
    for (const LeftOut& s : empty_thoughts(text)) got.emplace_back(s.begin, s.end);
    EXPECT_EQ(got, want) << text;
    found += !want.empty();
  }
  EXPECT_GT(found, 500);
}

class ReasoningRows : public test::LoadedRows {
 protected:
  // Returns the trained tokens as text.
  std::string learned(const std::string& row) {
    const Dataset data = load(row);
    std::vector<std::int32_t> ids;
    for (const std::int32_t label : data[0].labels)
      if (label != kIgnored) ids.push_back(label);
    return tokenizer->decode(ids, false);
  }
  static std::string chat(const std::string& first, const std::string& second = "", const Json& more = {}) {
    Json messages{{{"role", "user"}, {"content", "x"}},
                  answer(first, more.is_null() ? Json::object() : more)};
    if (!second.empty()) {
      messages.push_back({{"role", "user"}, {"content", "y"}});
      messages.push_back(answer(second));
    }
    return json_text(Json{{"messages", messages}}, -1);
  }
};

const std::string kPlain =
    "{% for m in messages %}{{ m.role }}:{{ m.content }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}";
const std::string kMarked =
    "{% for m in messages %}{{ m.role }}:{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
    "{{ eos_token }}{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}";
const std::string kThinks =
    "{% for m in messages %}{{ m.role }}:{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>"
    "{% endif %}{{ m.content }}{{ eos_token }}{% endfor %}{% if add_generation_prompt %}assistant:{% endif "
    "%}";

TEST_F(ReasoningRows, AnEmptyThoughtIsNotTrained) {
  const std::string empty = "<think>\n\n</think>\n\nAda", full = "<think>y</think>Ada";
  for (const std::string& chat_template : {kPlain, kMarked, std::string("chatml")}) {
    config.chat_template = chat_template;
    const std::string end = chat_template == "chatml" ? "<|im_end|>" : "</s>";
    config.ignore_empty_think = false;
    EXPECT_EQ(learned(chat(empty)), empty + end) << chat_template;
    config.ignore_empty_think = true;
    EXPECT_EQ(learned(chat(empty)), "Ada" + end) << chat_template;
    EXPECT_EQ(learned(chat(full)), full + end) << chat_template;
  }
  config.chat_template = kPlain;
  const std::string completion = json_text(
      Json{{"prompt", {{{"role", "user"}, {"content", "x"}}}}, {"completion", Json::array({answer(empty)})}},
      -1);
  EXPECT_EQ(learned(completion), "Ada</s>");
  config.ignore_empty_think = false;
  EXPECT_EQ(learned(completion), empty + "</s>");
}

TEST_F(ReasoningRows, ThoughtsGoWhereTheTemplateReadsThem) {
  config.chat_template = kThinks;
  const std::string inside = "<think>y</think>Ada";
  EXPECT_EQ(learned(chat("Ada", "", {{"thinking", "y"}})), "Ada</s>") << "the template does not read the key";
  config.reasoning_content = split;
  EXPECT_EQ(learned(chat("Ada", "", {{"thinking", "y"}})), inside + "</s>");
  EXPECT_EQ(learned(chat(inside)), inside + "</s>");
  config.reasoning_content = drop;
  EXPECT_EQ(learned(chat(inside)), "Ada</s>");
  config.reasoning_content = into_content;
  config.chat_template = "chatml";
  EXPECT_EQ(learned(chat("Ada", "", {{"reasoning_content", "y"}})), "<think>\ny\n</think>\n\nAda<|im_end|>");
  config.reasoning_content = split;
  EXPECT_TRUE(
      error(chat(inside)).starts_with("t.jsonl:1: messages: data.reasoning_content is split, but the "));
}

TEST_F(ReasoningRows, ThoughtsOfComparedAnswersAreArrangedToo) {
  wanted = {.kind = RowKind::pair, .objective = "dpo"};
  config.chat_template = kPlain;
  const std::string row = json_text(Json{{"prompt", {{{"role", "user"}, {"content", "x"}}}},
                                         {"chosen", Json::array({answer("<think>y</think>Ada")})},
                                         {"rejected", Json::array({answer("has")})}},
                                    -1);
  EXPECT_NE(text_of(load(row)).find("<think>"), std::string::npos);
  config.reasoning_content = drop;
  EXPECT_EQ(text_of(load(row)).find("<think>"), std::string::npos);
  config.mask_history = true;
  EXPECT_EQ(error(row, Exit::config),
            "data.mask_history: is for examples to learn; objective.type dpo has other rows; take it out");
}

TEST_F(ReasoningRows, OnlyTheLastTurnIsTrained) {
  for (const std::string& chat_template : {kPlain, kMarked, std::string("chatml")}) {
    config.chat_template = chat_template;
    config.mask_history = false;
    EXPECT_NE(learned(chat("Ada", "has")).find("Ada"), std::string::npos) << chat_template;
    config.mask_history = true;
    EXPECT_EQ(learned(chat("Ada", "has")).substr(0, 4), "has<");
    EXPECT_EQ(learned(chat("Ada")).substr(0, 4), "Ada<") << "the only turn is the last";
    EXPECT_NE(learned(chat("Ada", "has", {{"train", true}})).find("Ada"), std::string::npos);
  }
  config.chat_template = kPlain;
  const std::string why = error(R"({"messages": [{"role": "assistant", "content": "Ada"}, )"
                                R"({"role": "assistant", "content": "has", "train": false}]})");
  EXPECT_NE(why.find("message 2 has \"weight\": 0 or \"train\": false"), std::string::npos) << why;
  const std::string completion =
      json_text(Json{{"prompt", {{{"role", "user"}, {"content", "x"}}}},
                     {"completion", {answer("Ada"), {{"role", "user"}, {"content", "y"}}, answer("has")}}},
                -1);
  EXPECT_EQ(learned(completion), "has</s>");
}

TEST_F(ReasoningRows, SettingsWithoutEffectAreRefused) {
  config.chat_template =
      "{% for m in messages %}{% if loop.last %}{% generation %}{{ m.content }}{% endgeneration %}{% else %}"
      "{{ m.content }}{% endif %}{% endfor %}";
  config.mask_history = true;
  EXPECT_EQ(
      error(chat("Ada", "has")),
      "t.jsonl:1: messages: message 2: data.mask_history has no effect, because the chat template does not "
      "show which part of its text is this message; take it out, or the row");
  config.chat_template.reset();
  EXPECT_EQ(error(R"({"text": "Ada"})", Exit::config),
            "data.mask_history: has no effect on rows of type text (data.datasets[0]), which are not "
            "conversations; take it out");
  config.mask_history = false;
  config.ignore_empty_think = true;
  EXPECT_TRUE(
      error(R"({"text": "Ada"})", Exit::config).starts_with("data.ignore_empty_think: has no effect"));
  EXPECT_TRUE(error(R"({"prompt": "x", "completion": "Ada"})", Exit::config)
                  .starts_with("data.ignore_empty_think: has no effect on t.jsonl:1, which is plain text"));
}

}  // namespace
}  // namespace ft::thoughts
