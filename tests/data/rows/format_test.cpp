// Rows of text: the tokens of prompts, answers and texts, and the errors of wrong rows.
#include "data/rows/format.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "data/batches/load.h"
#include "data/row_formats.h"
#include "tests/data/scratch.h"
#include "tests/support/source.h"

namespace ft {
namespace {

using test::error_of;
using test::Scratch;
using Ids = std::vector<std::int32_t>;

class FormatTest : public testing::Test {
 protected:
  FormatTest() { config.datasets.resize(1); }
  LoadedData load(const std::string& text) {
    scratch.write("t.jsonl", text);
    config.datasets[0].path = "t.jsonl";
    const LoadContext context{.base = scratch.folder(),
                              .vocab_size = vocab_size,
                              .tokenizer = [&]() -> const Tokenizer& { return *tokenizer; },
                              .progress =
                                  [&](std::int64_t done, std::int64_t total) {
                                    told = {done, total};
                                  }};
    return load_data(config, 1, context);
  }
  std::string error(const std::string& text, Exit code = Exit::input) {
    return error_of(code, [&] { load(text); });
  }
  static Ids ids(const Dataset& d) { return {d[0].input_ids.begin(), d[0].input_ids.end()}; }
  static Ids labels(const Dataset& d) { return {d[0].labels.begin(), d[0].labels.end()}; }

  const Scratch scratch;
  DataConfig config;
  std::int64_t vocab_size = 400;
  std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(source_path("tests/data/tiny_tokenizer"));
  std::pair<std::int64_t, std::int64_t> told;
};

TEST_F(FormatTest, PromptsAndAnswers) {
  const Ids whole{1, 301, 274, 301, 2}, answer{-100, -100, -100, 301, 2};
  for (const char* row :
       {R"({"prompt": "Ada has", "completion": "Ada"})", R"({"prompt": "Ada has", "response": "Ada"})",
        R"({"question": "Ada has", "answer": "Ada", "id": [1, {"prompt": 2}]})"}) {
    const auto data = load(row);
    EXPECT_EQ(ids(data.train), whole) << row;
    EXPECT_EQ(labels(data.train), answer) << row;
    EXPECT_EQ(told.first, told.second);
  }
  config.datasets[0].type = &row_formats::kPromptCompletion;
  config.datasets[0].columns = {{"prompt", "ask"}, {"response", "say"}};
  const std::string row = R"({"say": "Ada", "ask": "Ada has", "prompt": 5})";
  EXPECT_EQ(labels(load(row).train), answer);
  config.train_on_inputs = true;
  EXPECT_EQ(labels(load(row).train), whole);
}

TEST_F(FormatTest, PromptsAndAnswersOfMessages) {
  config.chat_template =
      "{{ begin }}{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}"
      "{% if add_generation_prompt %}Ada{% endif %}";
  const std::string prompt = R"({"prompt": [{"role": "user", "content": "has"}], )";
  const auto with = [&](const std::string& answer, const std::string& more = "") {
    return load(prompt + R"("completion": [{"role": "assistant", "content": ")" + answer + "\"}]" + more +
                "}")
        .train;
  };
  const auto tokens = [&](const std::string& text) { return tokenizer->encode(text); };
  const auto behind = [&](std::size_t untrained, const std::string& text) {
    Ids all = tokens(text);
    std::fill_n(all.begin(), untrained, kIgnored);
    return all;
  };
  const std::string text = "has</s>Ada has</s>";
  EXPECT_EQ(ids(with("Ada has")), tokens(text));
  EXPECT_EQ(labels(with("Ada has")), behind(tokens("has</s>Ada").size(), text));
  // Training begins where the full text's tokens differ from the prompt's tokens, as in TRL.
  EXPECT_EQ(labels(with("x")), behind(tokens("has</s>").size(), "has</s>x</s>"));
  EXPECT_EQ(ids(with("Ada", R"(, "chat_template_kwargs": {"begin": "Ada "})")), tokens("Ada has</s>Ada</s>"));
  config.train_on_inputs = true;
  EXPECT_EQ(labels(with("Ada has")), tokens(text));
  EXPECT_EQ(
      error(prompt + R"("completion": "Ada"})"),
      "t.jsonl:1: completion: must be a text or a list of messages, as the row's others are, is \"Ada\"");
  EXPECT_EQ(error(R"({"prompt": {}, "completion": []})"),
            "t.jsonl:1: prompt: expected a string, not an object");
  config.chat_template = "alpaca";
  EXPECT_EQ(error(prompt + R"("completion": [{"role": "assistant", "content": "x"}], "tools": [{}]})"),
            "t.jsonl:1: tools: ft's chat formats do not use it; the model's own template may");
}

TEST_F(FormatTest, SettingsOfChatsAreRefusedWhereARowIsPlainText) {
  const std::string row = R"({"prompt": "Ada", "completion": "has"})";
  config.chat_template_kwargs.text = "{}";
  EXPECT_EQ(
      error(row, Exit::config),
      "data.chat_template_kwargs: has no effect on t.jsonl:1, which is plain text; take it out, or write "
      "prompts as messages");
  config.tools.text = "[]";
  EXPECT_TRUE(error(row, Exit::config).starts_with("data.tools: has no effect on t.jsonl:1, "));
  config.datasets.push_back(config.datasets[0]);  // a second dataset, which may contain conversations
  EXPECT_EQ(load(row).train.size(), 2);
}

TEST_F(FormatTest, Text) {
  EXPECT_EQ(ids(load(R"({"text": "Ada has"})").train), (Ids{1, 301, 274, 2}));
  EXPECT_EQ(labels(load(R"({"text": "Ada has"})").train), (Ids{1, 301, 274, 2}));
  config.datasets[0].columns = {{"text", "body"}};
  EXPECT_EQ(ids(load(R"({"body": ""})").train), (Ids{1, 2}));
}

TEST_F(FormatTest, Alpaca) {
  const auto whole = [&](const std::string& prompt, const std::string& answer) {
    Ids all{1};
    for (const auto& text : {prompt, answer})
      for (const auto id : tokenizer->encode(text)) all.push_back(id);
    all.push_back(2);
    return all;
  };
  const std::string with_input =
      "Below is an instruction that describes a task, paired with an input that provides further context. "
      "Write "
      "a response that appropriately completes the request.\n\n### Instruction:\nAdd.\n\n### Input:\n1 "
      "2\n\n### "
      "Response:";
  const std::string without =
      "Below is an instruction that describes a task. Write a response that appropriately completes the "
      "request.\n\n### Instruction:\nAdd.\n\n### Response:";
  EXPECT_EQ(ids(load(R"({"instruction": "Add.", "input": "1 2", "output": "Ada"})").train),
            whole(with_input, "Ada"));
  for (const char* row : {R"({"instruction": "Add.", "output": "Ada"})",
                          R"({"instruction": "Add.", "input": "", "output": "Ada"})",
                          R"({"instruction": "Add.", "input": null, "output": "Ada"})"}) {
    const auto data = load(row);
    EXPECT_EQ(ids(data.train), whole(without, "Ada")) << row;
    EXPECT_EQ(data.train.targets(), 2);
  }
  config.prompt_template = PromptTemplate::none;
  EXPECT_EQ(ids(load(R"({"instruction": "Add.", "input": "1 2", "output": "Ada"})").train),
            whole("Add.\n1 2", "Ada"));
}

TEST_F(FormatTest, SegmentsAreTokenizedOneByOneAndNothingIsAdded) {
  const std::string row =
      R"({"segments": [{"label": false, "text": "Ada has"}, {"label": true, "text": "Ada"}]})";
  const LoadedData data = load(row);
  EXPECT_EQ(ids(data.train), (Ids{301, 274, 301}));
  EXPECT_EQ(labels(data.train), (Ids{-100, -100, 301}));
  config.train_on_inputs = true;
  EXPECT_EQ(labels(load(row).train), (Ids{301, 274, 301}));
  EXPECT_EQ(error(R"({"segments": [{"label": true, "text": "Ada"}, {"text": "Ada"}]})"),
            "t.jsonl:1: segments[1]: label must be true or false");
  EXPECT_EQ(error(R"({"segments": [{"label": true}]})"), "t.jsonl:1: segments[0]: no text in \"text\"");
  EXPECT_EQ(error(R"({"segments": [{"label": true, "text": ""}]})"),
            "t.jsonl:1: segments: the texts have no token");
  for (const char* wrong : {R"({"segments": "Ada"})", R"({"segments": []})"})
    EXPECT_EQ(error(wrong), "t.jsonl:1: no \"segments\" that is a list of objects with text and label");
}

TEST_F(FormatTest, TranslationsAndPreferences) {
  const Ids whole{1, 301, 274, 301, 2}, answer{-100, -100, -100, 301, 2};
  const std::string row = R"({"translation": {"en": "has", "ro": "Ada"}})";
  EXPECT_EQ(
      error(row, Exit::config),
      "data.datasets[0]: type translation needs source_lang and target_lang, such as \"en\" and \"ro\"");
  config.datasets[0].source_lang = "en";
  config.datasets[0].target_lang = "ro";
  config.datasets[0].source_prefix = "Ada ";
  EXPECT_EQ(ids(load(row).train), whole);
  EXPECT_EQ(labels(load(row).train), answer);
  EXPECT_EQ(error(R"({"translation": {"en": "has"}})"), "t.jsonl:1: translation: no text in \"ro\"");
  EXPECT_EQ(error(R"({"translation": 3})"),
            "t.jsonl:1: no \"translation\" that is an object of languages and texts");
  EXPECT_EQ(labels(load(R"({"prompt": "Ada has", "chosen": "Ada", "rejected": "no"})").train), answer);
}

TEST_F(FormatTest, OtherFiles) {
  scratch.write("t.csv", "question,answer\n\"Ada has\",Ada\n");
  config.datasets[0].path = "t.csv";
  const LoadContext context{.base = scratch.folder(),
                            .vocab_size = 400,
                            .tokenizer = [&]() -> const Tokenizer& { return *tokenizer; }};
  EXPECT_EQ(ids(load_data(config, 1, context).train), (Ids{1, 301, 274, 301, 2}));
  scratch.write("t.txt", "Ada has\n");
  config.datasets[0].path = "t.txt";
  EXPECT_EQ(ids(load_data(config, 1, context).train), (Ids{1, 301, 274, 2}));
}

TEST_F(FormatTest, Errors) {
  const std::string good = "{\"prompt\": \"a\", \"completion\": \"b\"}\n";
  EXPECT_EQ(error(good + R"({"prompt": "the tin hat"})"), "t.jsonl:2: no \"completion\"; the row has prompt");
  EXPECT_EQ(error(good + R"({"prompt": "a", "completion": null})"),
            "t.jsonl:2: completion: expected a string, not null");
  EXPECT_EQ(error(good + R"({"prompt": ["a"], "completion": "b"})"),
            "t.jsonl:2: prompt[0]: must be {\"role\": text, \"content\": text}, is \"a\"");
  EXPECT_EQ(error(good + R"({"prompt": 7, "completion": "b"})"),
            "t.jsonl:2: prompt: expected a string, not the number 7");
  config.max_seq_length = 2;
  EXPECT_EQ(error(R"({"prompt": "Ada has", "completion": "Ada"})"),
            "t.jsonl: nothing to train on in all 1 rows: t.jsonl:1: the part to train on was cut off by "
            "data.max_seq_length (2)");
}

TEST_F(FormatTest, TokensBeyondTheModel) {
  vocab_size = 300;
  EXPECT_EQ(error(R"({"text": "Ada"})"),
            "t.jsonl:1: token 301 (\xE2\x96\x81"
            "Ada): the model has no embedding for it, its vocabulary ends at 299. Is this tokenizer another "
            "model's, or were tokens added to it?");
}

TEST_F(FormatTest, NoEndToken) {
  std::filesystem::copy(source_path("tests/data/tiny_tokenizer/tokenizer.model"), scratch.folder());
  scratch.write("tokenizer_config.json", R"({"eos_token": null})");
  tokenizer = make_tokenizer(scratch.folder());
  EXPECT_EQ(error(R"({"text": "Ada"})"),
            "the tokenizer has no end token; name it as eos_token in tokenizer_config.json");
}

TEST_F(FormatTest, PaddingWithoutEffectIsReported) {
  config.pad_to_multiple_of = 64;
  EXPECT_EQ(load(R"({"text": "Ada"})").notes,
            std::vector<std::string>{"data.pad_to_multiple_of has no effect: nothing is padded unless "
                                     "data.pad_to_max_length is true"});
}

TEST(RowFormats, EachIsCompleteAndDetected) {
  for (const RowFormat* rows : row_formats::kRowFormats) {
    const auto& order = row_formats::kDetectionOrder;
    const bool described = rows != &row_formats::kDetected;
    EXPECT_EQ(std::count(order.begin(), order.end(), rows), int{described}) << rows->name;
    EXPECT_EQ(rows->fits && rows->make && rows->columns[0], described) << rows->name;
  }
}

}  // namespace
}  // namespace ft
