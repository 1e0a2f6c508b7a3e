// Chat formats: what each writes, which templates are recognised, and which tokens of a conversation are
// trained.
#include <gtest/gtest.h>

#include <stdexcept>

#include "data/chat_format.h"
#include "data/chat_template.h"
#include "data/load.h"
#include "tests/data/scratch.h"
#include "tests/support/source.h"

namespace ft {
namespace {

using test::error_of;
using test::Scratch;
using Ids = std::vector<std::int32_t>;

const std::vector<ChatMessage> kTalk{
    {"system", "Be brief."}, {"user", "Hi"}, {"assistant", "Yo"}, {"user", "Bye"}, {"assistant", "Ciao"}};

class ChatTest : public testing::Test {
 protected:
  std::string text(const std::string& name, std::span<const ChatMessage> messages) const {
    std::string out;
    for (const ChatPart& part : render_chat(*chat_format_by_name(name), messages, *tokenizer))
      out += part.text;
    return out;
  }
  std::string prompt(const std::string& name) const {
    return render_chat_prompt(*chat_format_by_name(name), std::span(kTalk).subspan(1, 1), *tokenizer);
  }
  std::string wrong(const std::string& name, const std::vector<ChatMessage>& messages) const {
    try {
      text(name, messages);
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "nothing wrong";
  }
  std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(source_path("tests/data/tiny_tokenizer"));
};

TEST_F(ChatTest, WhatEachFormatWrites) {
  EXPECT_EQ(text("llama2", kTalk),
            "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST] Yo </s><s>[INST] Bye [/INST] Ciao </s>");
  EXPECT_EQ(text("mistral", kTalk), "<s>[INST] Be brief.\n\nHi [/INST] Yo</s>[INST] Bye [/INST] Ciao</s>");
  EXPECT_EQ(text("llama3", kTalk),
            "<s><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\nYo<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\nCiao<|eot_id|>");
  EXPECT_EQ(text("chatml", kTalk),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
            "Yo<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\nCiao<|im_end|>\n");
  EXPECT_EQ(text("zephyr", kTalk),
            "<|system|>\nBe brief.</s>\n<|user|>\nHi</s>\n<|assistant|>\nYo</s>\n<|user|>\nBye</s>\n"
            "<|assistant|>\nCiao</s>\n");
  EXPECT_EQ(text("gemma", kTalk),
            "<s><start_of_turn>user\nBe brief.\n\nHi<end_of_turn>\n<start_of_turn>model\nYo<end_of_turn>\n"
            "<start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\nCiao<end_of_turn>\n");
  EXPECT_EQ(text("alpaca", kTalk),
            "<s>Be brief.\n\n### Instruction:\nHi\n\n### Response:Yo</s>\n\n"
            "### Instruction:\nBye\n\n### Response:Ciao</s>\n\n");
  EXPECT_EQ(
      text("alpaca", std::span(kTalk).subspan(1, 2)),
      "<s>Below is an instruction that describes a task. Write a response that appropriately completes the "
      "request.\n\n### Instruction:\nHi\n\n### Response:Yo</s>\n\n");
  EXPECT_EQ(text("plain", kTalk), "<s>Be brief.\nHi\nYo</s>\nBye\nCiao</s>\n");
  EXPECT_EQ(chat_format_by_name("vicuna"), std::nullopt);
}

TEST_F(ChatTest, PromptsEndWhereAnAnswerBegins) {
  EXPECT_EQ(prompt("llama2"), "<s>[INST] Hi [/INST]");
  EXPECT_EQ(prompt("chatml"), "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(prompt("gemma"), "<s><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n");
  EXPECT_EQ(prompt("plain"), "<s>Hi\n");
  EXPECT_THROW(render_chat_prompt({}, kTalk, *tokenizer), std::invalid_argument);
}

TEST_F(ChatTest, RolesOutOfTurn) {
  EXPECT_EQ(wrong("llama2", {}), "no messages");
  EXPECT_EQ(wrong("llama2", {{"tool", "x"}}),
            "message 1: unknown role \"tool\"; ft knows system, user and assistant");
  EXPECT_EQ(wrong("llama2", {{"assistant", "x"}}),
            "message 1: an assistant message where this chat format expects a user message");
  EXPECT_EQ(wrong("mistral", {{"user", "x"}, {"user", "y"}}),
            "message 2: a user message where this chat format expects an assistant message");
  EXPECT_EQ(wrong("gemma", {{"user", "x"}, {"system", "y"}}),
            "message 2: this chat format allows a system message only at the beginning");
  EXPECT_EQ(wrong("gemma", {{"system", "y"}}), "there is only a system message");
  EXPECT_EQ(wrong("chatml", {{"user", "x"}, {"user", "y"}, {"system", "z"}}), "nothing wrong");
}

TEST(ChatTemplate, RecognisedByItsWords) {
  const auto style = [](std::string_view jinja) {
    const auto format = recognised_chat_format(jinja);
    return format ? static_cast<int>(format->style) + (format->trim ? 100 : 0) : -1;
  };
  const auto is = [](ChatStyle s) { return static_cast<int>(s); };
  const std::string chatml =
      "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
      "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% "
      "endif %}";
  EXPECT_EQ(style(chatml), is(ChatStyle::chatml));
  EXPECT_EQ(style("{% if tools %}" + chatml), -1);
  EXPECT_EQ(style("{{ 'You are Qwen' }}" + chatml), -1);
  EXPECT_EQ(
      style("{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = "
            "'<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim "
            "+ '<|eot_id|>' %}{{ content }}{% endfor %}"),
      is(ChatStyle::llama3) + 100);
  EXPECT_EQ(
      style("{{ bos_token }}{% for message in messages %}{{ '[INST] ' + message['content'] + ' [/INST]' "
            "}}{{ message['content'] + eos_token}}{% endfor %}"),
      is(ChatStyle::mistral));
  EXPECT_EQ(style("{{ messages }}"), -1);
}

TEST(ChatTemplate, TheModelsOwnOrTheNamedOne) {
  const Scratch s;
  const auto choose = [&](std::optional<std::string> setting) {
    return choose_chat_format(setting, s.folder());
  };
  const std::string folder = s.folder().string(), names = std::string(kChatFormats);
  EXPECT_EQ(choose("zephyr").style, ChatStyle::zephyr);
  EXPECT_EQ(error_of(Exit::config, [&] { choose("vicuna"); }),
            "data.chat_template: \"vicuna\" is not a chat format; there are " + names);
  EXPECT_EQ(error_of(Exit::config, [&] { choose("{{ messages }}"); }),
            "data.chat_template: this template is not one that ft knows, and ft does not execute templates. "
            "If it produces one of these formats, give that name: " +
                names);
  EXPECT_EQ(error_of(Exit::config, [&] { choose("my.jinja"); }),
            "data.chat_template: there is no " + folder + "/my.jinja");
  s.write("my.jinja", "{{ messages }}");
  EXPECT_EQ(error_of(Exit::config, [&] { choose("my.jinja"); }),
            "data.chat_template: " + folder +
                "/my.jinja is not one that ft knows, and ft does not execute templates. If it produces one "
                "of these formats, give that name: " +
                names);
  s.write("my.jinja", "<|im_start|><|im_end|>");
  EXPECT_EQ(choose("my.jinja").style, ChatStyle::chatml);
  EXPECT_EQ(choose(folder + "/my.jinja").style, ChatStyle::chatml);
  const std::string set = "set data.chat_template to the one that the model was trained with: " + names;
  EXPECT_EQ(error_of(Exit::input, [&] { choose({}); }), folder + ": the model has no chat_template; " + set);
  s.write("tokenizer_config.json", R"({"chat_template": "{{ messages }}"})");
  EXPECT_EQ(
      error_of(Exit::input, [&] { choose({}); }),
      folder + ": ft does not know the model's chat_template, and it does not execute templates; " + set);
  s.write("tokenizer_config.json", R"({"chat_template": [{"name": "tool_use", "template": "x"},
      {"name": "default", "template": "<|im_start|><|im_end|>"}]})");
  EXPECT_EQ(choose({}).style, ChatStyle::chatml);
  s.write("chat_template.jinja", "<start_of_turn><end_of_turn>{{ bos_token }}{{ content | trim }}");
  EXPECT_EQ(choose({}).style, ChatStyle::gemma);
  EXPECT_TRUE(choose({}).trim);
}

class ChatRowsTest : public ChatTest {
 protected:
  ChatRowsTest() {
    config.datasets.resize(1);
    config.datasets[0].path = "t.jsonl";
    config.chat_template = "llama2";
  }
  // The trained tokens, joined; what is between them as "|".
  std::string trained(const std::string& row) {
    scratch.write("t.jsonl", row);
    const LoadContext context{.base = scratch.folder(),
                              .vocab_size = 400,
                              .tokenizer = [&]() -> const Tokenizer& { return *tokenizer; }};
    const LoadedData data = load_data(config, 1, context);
    const auto [ids, labels] = data.train[0];
    input = {ids.begin(), ids.end()};
    std::string out;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (labels[i] != kIgnored)
        out += tokenizer->token(ids[i]);
      else if (!out.ends_with('|'))
        out += '|';
    }
    return out;
  }
  std::string error(const std::string& row) {
    return error_of(Exit::input, [&] { trained(row); });
  }

  const Scratch scratch;
  DataConfig config;
  Ids input;
};

const std::string kRow =
    R"({"messages": [{"role": "user", "content": "Ada has"}, {"role": "assistant", "content": "Ada"},
    {"role": "user", "content": "has"}, {"role": "assistant", "content": "has"}]})";

std::string one_line(std::string text) {
  for (char& c : text)
    if (c == '\n') c = ' ';
  return text;
}

TEST_F(ChatRowsTest, AnswersAndTheirEndsAreTrained) {
  const std::string row = one_line(kRow), s = "\xE2\x96\x81";
  EXPECT_EQ(trained(row), "|" + s + "Ada" + s + "</s>|" + s + "has" + s + "</s>");
  EXPECT_EQ(input, tokenizer->encode("<s>[INST] Ada has [/INST] Ada </s><s>[INST] has [/INST] has </s>"));
  config.train_on_eos = TrainOnEos::last;
  EXPECT_EQ(trained(row), "|" + s + "Ada|" + s + "has" + s + "</s>");
  config.train_on_eos = TrainOnEos::none;
  EXPECT_EQ(trained(row), "|" + s + "Ada|" + s + "has|");
  config.train_on_eos = TrainOnEos::turn;
  config.train_on_inputs = true;
  EXPECT_EQ(trained(row).find('|'), std::string::npos);
  config.train_on_inputs = false;
  config.chat_template = "zephyr";
  config.roles_to_train = {ChatRole::user};
  EXPECT_EQ(trained(row), "|Ada" + s + "has</s>|has</s>|");
  config.train_on_eos = TrainOnEos::all;
  EXPECT_EQ(trained(row), "|Ada" + s + "has</s>|</s>|has</s>|</s>|");
}

TEST_F(ChatRowsTest, FormsOfRows) {
  const std::string s = "\xE2\x96\x81", want = "|" + s + "Ada" + s + "</s>";
  EXPECT_EQ(
      trained(R"({"conversations": [{"from": "human", "value": "has"}, {"from": "gpt", "value": "Ada"}]})"),
      want);
  const Ids with = tokenizer->encode("<s>[INST] <<SYS>>\nhas\n<</SYS>>\n\nhas [/INST] Ada </s>");
  EXPECT_EQ(trained(R"({"system": "has", "conversations": [{"from": "human", "value": "has"},)"
                    R"( {"from": "gpt", "value": "Ada"}]})"),
            want);
  EXPECT_EQ(input, with);
  EXPECT_EQ(
      trained(R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "ha"}, {"text": "s"}]},)"
              R"( {"role": "assistant", "content": "Ada"}]})"),
      want);
  EXPECT_EQ(
      trained(
          R"({"messages": [{"role": "user", "content": "has"},)"
          R"( {"role": "assistant", "content": "has", "weight": 0},)"
          R"( {"role": "user", "content": "has"}, {"role": "assistant", "content": "Ada", "train": true}]})"),
      want);
}

TEST_F(ChatRowsTest, Errors) {
  const auto message = [&](const std::string& text) { return error(R"({"messages": [)" + text + "]}"); };
  EXPECT_EQ(message("3"), "t.jsonl:1: messages[0]: must be an object, is 3");
  EXPECT_EQ(message(R"({"content": "x"})"), "t.jsonl:1: messages[0].role: must be a string");
  EXPECT_EQ(message(R"({"role": "user"})"), "t.jsonl:1: messages[0]: no content");
  EXPECT_EQ(message(R"({"role": "user", "content": 3})"),
            "t.jsonl:1: messages[0].content: must be a string, is 3");
  EXPECT_EQ(message(R"({"role": "user", "content": [{"type": "image"}]})"),
            "t.jsonl:1: messages[0].content: has a part that is not text: an object of 1 key");
  EXPECT_EQ(message(R"({"role": "assistant", "content": "x", "tool_calls": [{}]})"),
            "t.jsonl:1: messages[0].tool_calls: ft's chat formats do not support tool calls");
  EXPECT_EQ(message(R"({"role": "user", "content": "x", "weight": 2})"),
            "t.jsonl:1: messages[0].weight: must be 0 or 1, is 2");
  EXPECT_EQ(message(R"({"role": "tool", "content": "x"})"),
            "t.jsonl:1: messages: message 1: unknown role \"tool\"; ft knows system, user and assistant");
  EXPECT_EQ(error(R"({"messages": 3})"), "t.jsonl:1: messages: must be a list of messages, is 3");
  EXPECT_EQ(error("{\"messages\": []}\n{\"text\": 1}"), "t.jsonl:1: messages: no messages");
  config.datasets[0].type = RowType::messages;
  EXPECT_EQ(error("{\"text\": 1}"), "t.jsonl:1: no \"messages\"");
  EXPECT_EQ(error("[1]"), "t.jsonl:1: the row is a list, not an object");
}

}  // namespace
}  // namespace ft
