// Prompts for generated answers, and the micro-batches of these answers.
#include "data/preference/generated.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "data/batches/load.h"
#include "tests/data/scratch.h"
#include "tests/support/source.h"

namespace ft {
namespace {

using test::error_of;
using test::Scratch;
using Ids = std::vector<std::int32_t>;

class GeneratedTest : public testing::Test {
 protected:
  GeneratedTest() { config.datasets.resize(1); }
  Dataset load(const std::string& text) {
    scratch.write("t.jsonl", text);
    config.datasets[0].path = "t.jsonl";
    const LoadContext context{.base = scratch.folder(),
                              .vocab_size = 400,
                              .tokenizer = [&]() -> const Tokenizer& { return *tokenizer; },
                              .rows = {.kind = RowKind::prompt, .objective = "grpo", .answer = 4}};
    return load_data(config, 1, context).train;
  }
  std::string error(const std::string& text, Exit code = Exit::input) {
    return error_of(code, [&] { load(text); });
  }
  Dataset prompts(int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += "{\"prompt_ids\": [1, " + std::to_string(10 + i) + "]}\n";
    return load(text);
  }
  static Ids ids(std::span<const std::int32_t> s) { return {s.begin(), s.end()}; }

  const Scratch scratch;
  DataConfig config;
  std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(source_path("tests/data/tiny_tokenizer"));
};

TEST_F(GeneratedTest, PromptsKeepTheirRows) {
  const Dataset d = load("{\"prompt_ids\":[5,6],\"answer\":7,\"level\":{\"a\":1}}\n");
  EXPECT_EQ(ids(d[0].input_ids), (Ids{5, 6}));
  EXPECT_EQ(ids(d[0].labels), (Ids{-100, -100}));
  EXPECT_EQ(d.prompt_row(0), (Json{{"prompt_ids", {5, 6}}, {"answer", 7}, {"level", {{"a", 1}}}}));
}

TEST_F(GeneratedTest, TheAnswerHasItsUsualNames) {
  const auto answer = [&](const std::string& row) { return load(row).prompt_row(0)["answer"]; };
  EXPECT_EQ(answer(R"({"prompt":"a","completion":"b"})"), "b");
  EXPECT_EQ(answer(R"({"prompt":"a","solution":"c"})"), "c");
  EXPECT_EQ(answer(R"({"prompt":"a","answer":"d","completion":"b"})"), "d");
  config.datasets[0].columns = {{"answer", "gold"}};
  EXPECT_EQ(answer(R"({"prompt":"a","gold":"e","completion":"b"})"), "e");
  EXPECT_TRUE(answer(R"({"prompt":"a"})").is_null());
}

TEST_F(GeneratedTest, TextsAndConversationsArePrompts) {
  const Dataset text = load(R"({"prompt":"Hello there"})");
  EXPECT_EQ(ids(text[0].input_ids), tokenizer->encode_with_specials("Hello there"));
  config.chat_template = "chatml";
  const Dataset chat = load(R"({"prompt":[{"role":"user","content":"Hello"}]})");
  EXPECT_TRUE(tokenizer->decode(chat[0].input_ids, false).ends_with("<|im_start|>assistant\n"))
      << tokenizer->decode(chat[0].input_ids, false);
}

TEST_F(GeneratedTest, PromptsLeaveRoomForAnAnswer) {
  const std::string three = "{\"prompt_ids\":[5,6,7]}\n", two = "{\"prompt_ids\":[5,6]}\n";
  config.max_seq_length = 6;
  EXPECT_EQ(load(three + two).size(), 1);
  EXPECT_NE(error(three).find("leave less room"), std::string::npos);
  config.truncation = Truncation::error;
  EXPECT_NE(error(two + three).find("t.jsonl:2: a prompt of 3 tokens"), std::string::npos);
}

TEST_F(GeneratedTest, NamesRowsWithoutPrompts) {
  EXPECT_NE(error(R"({"prompt_ids":[]})").find("nothing to answer"), std::string::npos);
  EXPECT_NE(error(R"({"prompt_ids":[400]})").find("prompt_ids[0] is 400"), std::string::npos);
  EXPECT_NE(error(R"({"prompt":7})").find("prompt: must be a text or a list"), std::string::npos);
  EXPECT_NE(error(R"({"input_ids":[7]})", Exit::config).find("prompts_tokenized"), std::string::npos);
}

// Two prompts with two answers each fill a generation of two micro-batches; five prompts make two
// generations.
TEST_F(GeneratedTest, GenerationsTakePromptsInTurns) {
  const GeneratedAnswers g(prompts(5),
                           {.group = 2, .rows = 2, .batches = 2, .step = 1, .uses = 3, .longest = 4});
  EXPECT_EQ(g.answers(), 4);
  EXPECT_EQ(g.steps(), 6);
  EXPECT_EQ(g.batches_per_epoch(), 12);
  EXPECT_EQ(g.places(0), (std::vector<std::int64_t>{0, 0, 1, 1}));
  EXPECT_EQ(g.places(1), (std::vector<std::int64_t>{2, 2, 3, 3}));
  EXPECT_EQ(g.places(2), g.places(0)) << "the next epoch";
  EXPECT_EQ(g.generation_of(5), 0);
  EXPECT_EQ(g.generation_of(6), 1);
  EXPECT_EQ(g.used(8), 2);
  const GeneratedAnswers shuffled(prompts(5),
                                  {.group = 1, .rows = 5, .longest = 4, .shuffle = true, .seed = 3});
  EXPECT_NE(shuffled.places(0), shuffled.places(1));
  const auto all = shuffled.places(1);
  EXPECT_EQ(std::set<std::int64_t>(all.begin(), all.end()).size(), 5u);
}

TEST_F(GeneratedTest, AnswersAreRowsOfMicroBatches) {
  GeneratedAnswers g(prompts(4), {.group = 2, .rows = 2, .batches = 2, .step = 2, .uses = 2, .longest = 4});
  g.put(0, {{.ids = {7, 2}, .advantage = 1, .old_logps = {-1, -2}},
            {.ids = {8}, .advantage = -1, .trained = false},
            {.ids = {9, 9, 2}, .advantage = 0.5f},
            {.ids = {2}}});
  const Batch b = g.batch(0, 0), again = g.batch(0, 2);
  EXPECT_EQ(b.input_ids, (Ids{1, 10, 7, 2, 1, 10, 8}));
  EXPECT_EQ(b.targets, (Ids{7, 2})) << "an answer that is not trained has no targets";
  EXPECT_EQ(b.target_rows, (Ids{1, 2}));
  EXPECT_EQ(b.compared.first_target, (Ids{0, 2, 2}));
  EXPECT_EQ(b.compared.value, (std::vector<float>{1, -1}));
  EXPECT_EQ(b.compared.old, (std::vector<float>{-1, -2}));
  EXPECT_EQ(again.input_ids, b.input_ids) << "used twice";
  EXPECT_EQ(g.shape(0, 0).targets, 2);
  EXPECT_EQ(g.batch(0, 1).input_ids, (Ids{1, 11, 9, 9, 2, 1, 11, 2}));
  EXPECT_TRUE(std::isnan(g.batch(0, 1).compared.old[0]));
  EXPECT_THROW(g.batch(0, 4), InternalError) << "the second generation has not been given";
  const BatchShape most = g.largest();
  EXPECT_EQ(most.tokens, 12);
  EXPECT_EQ(most.targets, 8);
  EXPECT_EQ(most.longest, 6);
}

TEST_F(GeneratedTest, SizesThatFillNoGenerationAreRefused) {
  const auto make = [&](const GeneratedOptions& o) { GeneratedAnswers(prompts(4), o); };
  EXPECT_NE(error_of(Exit::config, [&] { make({.group = 3, .rows = 2, .batches = 2, .step = 2}); })
                .find("groups have 3: set training.per_device_train_batch_size to a multiple of 3"),
            std::string::npos);
  EXPECT_NE(error_of(Exit::config, [&] { make({.group = 2, .rows = 2, .batches = 3, .step = 2}); })
                .find("objective.steps_per_generation"),
            std::string::npos);
  EXPECT_NE(error_of(Exit::input, [&] { make({.group = 2, .rows = 10}); }).find("4 prompts"),
            std::string::npos);
}

}  // namespace
}  // namespace ft
