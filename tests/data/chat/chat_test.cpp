// Chat formats: the text that each writes, the templates that are recognised, and the trained tokens of a
// conversation.
#include <gtest/gtest.h>

#include <stdexcept>

#include "data/batches/load.h"
#include "data/chat/chat_format.h"
#include "data/chat/chat_markers.h"
#include "data/chat/chat_template.h"
#include "data/row_formats.h"
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

TEST_F(ChatTest, TextsOfEachFormat) {
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

// Templates of other models, whose markers are not tokens of this tokenizer.
TEST_F(ChatTest, MarkersThatTheTokenizerSplits) {
  const Scratch s;
  const auto note = [&](const std::string& setting) {
    return note_about_markers(setting, s.folder(), *tokenizer);
  };
  EXPECT_EQ(note("plain") + note("llama2") + note("mistral") + note("alpaca") + note("zephyr") + note("own"),
            "");
  EXPECT_NE(note("llama3").find("the tokenizer splits <|start_header_id|> ("), std::string::npos)
      << note("llama3");
  EXPECT_NE(note("llama3").find(", <|eot_id|> ("), std::string::npos) << note("llama3");
  EXPECT_NE(note("gemma").find("<start_of_turn> ("), std::string::npos) << note("gemma");
  EXPECT_NE(note("{% for m in messages %}<|user|>{{ m.content }}{% endfor %}").find("<|user|> ("),
            std::string::npos);
  s.write("own.jinja", "<|im_start|>{{ messages[0].content }} < b <|x y|> <|");
  EXPECT_NE(note("own.jinja").find("splits <|im_start|> ("), std::string::npos);
  EXPECT_EQ(note("own.jinja").find("x y"), std::string::npos);
  EXPECT_EQ(note("missing.jinja"), "");
  EXPECT_TRUE(is_template_file("a/Own.JINJA"));
  const auto grown = make_tokenizer(source_path("tests/data/tiny_tokenizer"),
                                    {{.content = "<|im_start|>"}, {.content = "<|im_end|>"}});
  EXPECT_EQ(note_about_markers("chatml", s.folder(), *grown), "");
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

TEST_F(ChatTest, TheModelsTemplateOrTheNamedOne) {
  const Scratch s;
  const auto choose = [&](std::optional<std::string> setting) {
    return ChatTemplate(setting, s.folder(), *tokenizer);
  };
  const auto written = [&](std::optional<std::string> setting, bool tools = false) {
    return choose(std::move(setting))
        .writer({.tools = tools ? Json::array() : Json()})
        .prompt({.messages = {{{"role", "user"}, {"content", "Hi"}}}});
  };
  const std::string folder = s.folder().string(), names = std::string(kChatFormats);
  EXPECT_EQ(choose("zephyr").format()->style, ChatStyle::zephyr);
  EXPECT_EQ(error_of(Exit::config, [&] { choose("vicuna"); }),
            "data.chat_template: \"vicuna\" is not a chat format; there are " + names);
  EXPECT_EQ(written("{{ messages[0].content }}!"), "Hi!");
  EXPECT_EQ(error_of(Exit::config, [&] { choose("a\n{{ messages"); }),
            "data.chat_template: line 2: a tag {{ is not closed");
  EXPECT_EQ(error_of(Exit::config, [&] { choose("my.jinja"); }),
            "data.chat_template: there is no " + folder + "/my.jinja");
  s.write("my.jinja", "{{ bos_token }}mine");
  EXPECT_EQ(written("my.jinja"), "<s>mine");
  EXPECT_EQ(written(folder + "/my.jinja"), "<s>mine");
  s.write("my.jinja", "{{ 1 | shout }}");
  EXPECT_EQ(error_of(Exit::input, [&] { choose("my.jinja"); }),
            folder + "/my.jinja: chat_template line 1: there is no filter shout");
  EXPECT_EQ(error_of(Exit::input, [&] { choose({}); }),
            folder +
                ": the model has no chat_template; set data.chat_template to the one that the model was "
                "trained with: " +
                names);
  s.write("tokenizer_config.json", R"({"chat_template": "{{ eos_token }}"})");
  EXPECT_EQ(written({}), "</s>");
  s.write("tokenizer_config.json", R"({"chat_template": [{"name": "tool_use", "template": "tools"},
      {"name": "rag", "template": "documents"}, {"name": "default", "template": "usual"}]})");
  EXPECT_EQ(written({}), "usual");
  EXPECT_EQ(written({}, true), "tools");
  EXPECT_EQ(written("rag", true), "documents");
  EXPECT_EQ(error_of(Exit::config, [&] { choose("rags"); }),
            "data.chat_template: \"rags\" is not a chat format; there are " + names +
                ", and the model's templates: default, rag, tool_use; leave the setting out for the model's "
                "default");
  s.write("chat_template.jinja", "from its file\n");
  s.write("additional_chat_templates/rag.jinja", "documents from a file");
  EXPECT_EQ(written({}, true), "from its file");
  EXPECT_EQ(written("rag"), "documents from a file");
}

TEST_F(ChatTest, SpecialTokensOfTheModelsOwnAreVariables) {
  const Scratch s;
  s.write("tokenizer_config.json", R"({"cls_token": "<c>", "image_token": {"content": "<i>"}, "n_token": 3,
      "extra_special_tokens": {"boi_token": "<b>"},
      "model_specific_special_tokens": {"end_of_audio": "<a>"}})");
  s.write("special_tokens_map.json", R"({"video_token": "<v>"})");
  const ChatTemplate chat("{{ cls_token ~ image_token ~ boi_token ~ end_of_audio ~ video_token ~ n_token }}",
                          s.folder(), *tokenizer);
  EXPECT_EQ(chat.writer({}).prompt({.messages = {{{"role", "user"}, {"content", "Hi"}}}}), "<c><i><b><a><v>");
  std::vector<std::string> special;
  for (const AddedToken& token : read_tokenizer_settings(s.folder()).added)
    if (token.special) special.push_back(token.content);
  for (const char* token : {"<c>", "<i>", "<b>", "<a>", "<v>"})
    EXPECT_TRUE(std::find(special.begin(), special.end(), token) != special.end()) << token;
}

class ChatRowsTest : public ChatTest {
 protected:
  ChatRowsTest() {
    config.datasets.resize(1);
    config.datasets[0].path = "t.jsonl";
    config.chat_template = "llama2";
  }
  // Returns the trained tokens, joined, with "|" between runs of them.
  std::string trained(const std::string& row) {
    scratch.write("t.jsonl", row);
    const LoadContext context{.base = scratch.folder(),
                              .vocab_size = 400,
                              .tokenizer = [&]() -> const Tokenizer& { return *tokenizer; }};
    const LoadedData data = load_data(config, 1, context);
    notes = data.notes;
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
  std::vector<std::string> notes;
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

const std::string kTurns =
    "{{ bos_token }}{% for m in messages %}{{ m.role[0] }} {{ m.content }}{{ eos_token }}\n"
    "{% endfor %}{% if add_generation_prompt %}a {% endif %}";

TEST_F(ChatRowsTest, ATemplatesTurnsAreFoundInItsBeginnings) {
  const std::string row = one_line(kRow);
  config.chat_template = kTurns;
  EXPECT_EQ(trained(row),
            "|\xE2\x96\x81"
            "Ada</s>|\xE2\x96\x81has</s>|");
  EXPECT_EQ(input, tokenizer->encode("<s>u Ada has</s>\na Ada</s>\nu has</s>\na has</s>\n"));
  EXPECT_TRUE(notes.empty());
  config.train_on_eos = TrainOnEos::last;
  EXPECT_EQ(trained(row),
            "|\xE2\x96\x81"
            "Ada|\xE2\x96\x81has</s>|");
  config.train_on_eos = TrainOnEos::none;
  EXPECT_EQ(trained(row),
            "|\xE2\x96\x81"
            "Ada|\xE2\x96\x81has|");
  EXPECT_TRUE(notes.empty());
  config.train_on_eos = TrainOnEos::all;
  EXPECT_EQ(trained(row),
            "|</s>|\xE2\x96\x81"
            "Ada</s>|</s>|\xE2\x96\x81has</s>|");
  config.train_on_eos = TrainOnEos::turn;
  config.roles_to_train = {ChatRole::user};
  EXPECT_EQ(trained(row),
            "|\xE2\x96\x81"
            "Ada\xE2\x96\x81has</s>|\xE2\x96\x81has</s>|");
}

TEST_F(ChatRowsTest, AnswersThatATemplateDoesNotTrainAreReported) {
  const std::string row = one_line(kRow);
  // an earlier answer is left out when more messages follow
  config.chat_template =
      "{% for m in messages %}{% if m.role == 'user' or loop.last %}{{ m.content }}{{ eos_token }}"
      "{% endif %}{% endfor %}";
  EXPECT_EQ(trained(row), "|\xE2\x96\x81has</s>");
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(
      notes[0],
      "not trained, because the chat template writes them in another way when more messages follow, or not "
      "at all (1 of 2 turns): t.jsonl:1: message 2");
  config.chat_template = "{% for m in messages %}{{ m.content }}\n{% endfor %}";
  trained(row);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0],
            "the chat template trains no token that ends a turn (training data): the model will not learn "
            "where to stop");
}

TEST_F(ChatRowsTest, ATemplateThatMarksTheTrainedText) {
  const std::string row = one_line(kRow);
  config.chat_template =
      "{% for m in messages %}{% if m.role == 'user' %}{% generation %}{{ m.content }}{{ eos_token }}"
      "{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}";
  EXPECT_EQ(trained(row),
            "\xE2\x96\x81"
            "Ada\xE2\x96\x81has</s>|has</s>|");
  EXPECT_TRUE(notes.empty());
  config.train_on_eos = TrainOnEos::none;
  EXPECT_EQ(error_of(Exit::config, [&] { trained(row); }),
            "data.train_on_eos: the chat template's {% generation %} blocks choose the trained tokens; leave "
            "it at its default");
}

// A template with its own system message has all signs of ChatML, but writes other text.
TEST_F(ChatRowsTest, AKnownFormatOnlyWhereItWritesTheSame) {
  const std::string loop =
      "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}"
      "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
  const std::string row = one_line(kRow);
  config.chat_template = "chatml";
  const std::string usual = trained(row);
  const Ids ids = input;
  config.chat_template = loop;
  EXPECT_EQ(trained(row), usual);
  EXPECT_EQ(input, ids);
  config.chat_template = "{{ '<|im_start|>system\\nAda<|im_end|>\\n' }}" + loop;
  trained(row);
  const std::string text = "<|im_start|>system\nAda<|im_end|>\n<|im_start|>user\n";
  const Ids begin = tokenizer->encode(text);
  EXPECT_TRUE(std::equal(begin.begin(), begin.end() - 1, input.begin()));
}

TEST_F(ChatRowsTest, ToolsAndDocuments) {
  config.chat_template =
      "{{ tools | map(attribute='name') | join if tools else 'has' }}{{ documents[0].text if documents }}"
      "{% for m in messages %}{{ m.content or m.tool_calls[0].name }}{{ eos_token }}{% endfor %}";
  const auto text = [&](const std::string& more) {
    trained(R"({"messages": [{"role": "user", "content": "has"}, {"role": "assistant", "content": null, )"
            R"("tool_calls": [{"name": "Ada"}]}])" +
            more + "}");
    return tokenizer->decode(input, false);
  };
  EXPECT_EQ(text(""), "hashas</s> Ada</s>");
  EXPECT_EQ(text(R"(, "tools": [{"name": "Ada"}, {"name": "Ada"}])"), "AdaAdahas</s> Ada</s>");
  EXPECT_EQ(text(R"(, "tools": "[{\"name\": \"Ada\"}]", "documents": [{"text": "has"}])"),
            "Adahashas</s> Ada</s>");
  config.tools.text = R"([{"name": "Ada"}])";
  EXPECT_EQ(text(""), "Adahas</s> Ada</s>");
  EXPECT_EQ(text(R"(, "tools": null)"), "hashas</s> Ada</s>");
  EXPECT_EQ(error(R"({"messages": [{"role": "user", "content": "x"}], "tools": 3})"),
            "t.jsonl:1: tools: must be a list of tools, is 3");
  config.tools.text = "3";
  EXPECT_EQ(error_of(Exit::config, [&] { text(""); }), "data.tools: must be a list of functions' schemas");
}

TEST_F(ChatRowsTest, VariablesOfTheTemplatesOwn) {
  config.chat_template =
      "{{ 'Ada' if think is defined and think is false else 'has' }}"
      "{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}";
  const std::string row =
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])";
  const auto text = [&](const std::string& more) {
    trained(row + more + "}");
    return tokenizer->decode(input, false);
  };
  const auto wrong = [&](const std::string& kwargs) {
    return error(row + R"(, "chat_template_kwargs": )" + kwargs + "}");
  };
  const std::string plain = text(""), given = text(R"(, "chat_template_kwargs": {"think": false})");
  EXPECT_TRUE(plain.starts_with("has")) << plain;
  EXPECT_TRUE(given.starts_with("Ada")) << given;
  EXPECT_EQ(text(R"(, "chat_template_kwargs": {"think": true})"), plain);
  EXPECT_EQ(text(R"(, "chat_template_kwargs": null)"), plain);
  EXPECT_EQ(text(R"(, "chat_template_kwargs": {"eos_token": "x"})").find("</s>"), std::string::npos);
  EXPECT_EQ(wrong("3"),
            "t.jsonl:1: chat_template_kwargs: must be an object of the template's variables, is 3");
  EXPECT_EQ(wrong(R"({"tools": []})"),
            "t.jsonl:1: chat_template_kwargs: tools is not one of the template's own variables");
  config.chat_template_kwargs.text = R"({"think": false, "more": 1})";
  EXPECT_EQ(text(""), given);
  EXPECT_EQ(text(R"(, "chat_template_kwargs": {"more": 2})"), given) << "a row's are added";
  EXPECT_EQ(text(R"(, "chat_template_kwargs": {"think": true})"), plain) << "and win";
  config.chat_template_kwargs.text = "[]";
  EXPECT_EQ(error_of(Exit::config, [&] { text(""); }),
            "data.chat_template_kwargs: must be an object of the template's variables, is []");
  config.chat_template_kwargs.text = "";
  config.chat_template = "chatml";
  EXPECT_EQ(wrong("{}"),
            "t.jsonl:1: messages: chat_template_kwargs: ft's chat formats do not use it; the model's own "
            "template may");
}

TEST_F(ChatRowsTest, ATemplateThatRefusesTheRow) {
  config.chat_template =
      "{% if messages[0].role != 'system' %}\n{{ raise_exception('no system message') }}{% endif %}";
  EXPECT_EQ(error(one_line(kRow)), "t.jsonl:1: messages: chat_template line 2: no system message");
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
  config.datasets[0].type = &row_formats::kMessages;
  EXPECT_EQ(error("{\"text\": 1}"), "t.jsonl:1: no \"messages\"");
  EXPECT_EQ(error("[1]"), "t.jsonl:1: the row is a list, not an object");
}

}  // namespace
}  // namespace ft
