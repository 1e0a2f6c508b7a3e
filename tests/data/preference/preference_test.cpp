// Preference data: the end of the prompt, truncation, the layout in a batch, and refusals.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <tuple>

#include "data/batches/batcher.h"
#include "data/batches/load.h"
#include "data/preference/shared_prompt.h"
#include "data/row_formats.h"
#include "tests/data/scratch.h"
#include "tests/support/source.h"

namespace ft {
namespace {

using test::error_of;
using test::Scratch;
using Ids = std::vector<std::int32_t>;

class PreferenceTest : public testing::Test {
 protected:
  PreferenceTest() { config.datasets.resize(1); }

  Dataset load(const std::string& text) {
    scratch.write("t.jsonl", text);
    config.datasets[0].path = "t.jsonl";
    return load();
  }
  Dataset load() {
    const LoadContext context{.base = scratch.folder(),
                              .vocab_size = 400,
                              .tokenizer = [&]() -> const Tokenizer& { return *tokenizer; },
                              .rows = wanted};
    return load_data(config, 1, context).train;
  }
  std::string error(const std::string& text, Exit code = Exit::input) {
    return error_of(code, [&] { load(text); });
  }
  static Ids ids(std::span<const std::int32_t> s) { return {s.begin(), s.end()}; }

  const Scratch scratch;
  DataConfig config;
  WantedRows wanted{.kind = RowKind::pair, .objective = "dpo"};
  std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(source_path("tests/data/tiny_tokenizer"));
};

const char* const kPairs =
    "{\"prompt_ids\":[5,6],\"chosen_ids\":[7,8,2],\"rejected_ids\":[9,2],\"margin\":0.5}\n"
    "{\"prompt_ids\":[5],\"chosen_ids\":[2],\"rejected_ids\":[9,9,9,2]}\n";

TEST_F(PreferenceTest, TokensAreUsedAsTheyAre) {
  const Dataset d = load(kPairs);
  ASSERT_EQ(d.size(), 2);
  EXPECT_EQ(ids(d[0].input_ids), (Ids{5, 6, 7, 8, 2}));
  EXPECT_EQ(ids(d[0].labels), (Ids{-100, -100, 7, 8, 2}));
  EXPECT_EQ(ids(d.rejected(0).input_ids), (Ids{5, 6, 9, 2}));
  EXPECT_EQ(d.value(0), 0.5f);
  EXPECT_EQ(ids(d[1].input_ids), (Ids{5, 2}));
  EXPECT_EQ(ids(d.rejected(1).labels), (Ids{-100, 9, 9, 9, 2}));
  EXPECT_EQ(d.tokens(), 5 + 4 + 2 + 5);
}

TEST_F(PreferenceTest, LongAnswersAreCutAndLongPromptsLeftOut) {
  config.max_seq_length = 4;
  const Dataset d =
      load(std::string(kPairs) + R"({"prompt_ids":[5,6,7,8],"chosen_ids":[2],"rejected_ids":[9]})");
  ASSERT_EQ(d.size(), 2);
  EXPECT_EQ(ids(d[0].input_ids), (Ids{5, 6, 7, 8}));
  EXPECT_EQ(ids(d.rejected(0).input_ids), (Ids{5, 6, 9, 2}));
  EXPECT_EQ(ids(d.rejected(1).input_ids), (Ids{5, 9, 9, 9}));
  wanted.cut = false;
  EXPECT_NE(error(kPairs).find("max_seq_length"), std::string::npos) << "all rows have a long answer";
}

TEST_F(PreferenceTest, APairIsTwoSequencesOfABatch) {
  Batcher batcher(load(kPairs), {.batch_size = 2});
  const Batch b = batcher.batch(0, 0);
  EXPECT_EQ(b.starts, (Ids{0, 5, 9, 11, 16}));
  EXPECT_EQ(b.target_rows, (Ids{1, 2, 3, 6, 7, 9, 11, 12, 13, 14}));
  EXPECT_EQ(b.targets, (Ids{7, 8, 2, 9, 2, 2, 9, 9, 9, 2}));
  EXPECT_EQ(b.compared.first_target, (Ids{0, 3, 5, 6, 10}));
  EXPECT_EQ(b.compared.first_answer, (Ids{0, 3, 5, 6}));
  EXPECT_EQ(b.compared.value, (std::vector<float>{0.5f, 0}));
  const BatchShape s = batcher.shape(0, 0);
  EXPECT_EQ(s.tokens, 16);
  EXPECT_EQ(s.targets, 10);
  EXPECT_EQ(s.sequences, 4);
  EXPECT_EQ(s.longest, 5);
  EXPECT_EQ(s.compared, 2);
  EXPECT_TRUE(b.compared.reference.empty());
  batcher.set_reference({-1, -2, -3, -4});
  EXPECT_EQ(batcher.batch(0, 0).compared.reference, (std::vector<double>{-1, -2, -3, -4}));
}

TEST_F(PreferenceTest, PromptsOfChosenAnswersMayBeTargets) {
  const Batch b = Batcher(load(kPairs), {.batch_size = 1, .answers = {.prompt = true}}).batch(0, 0);
  EXPECT_EQ(b.target_rows, (Ids{0, 1, 2, 3, 6, 7}));
  EXPECT_EQ(b.compared.first_target, (Ids{0, 4, 6}));
  EXPECT_EQ(b.compared.first_answer, (Ids{1, 4}));
}

TEST_F(PreferenceTest, AScoreIsReadBehindTheLastTokenThatIsNoPadding) {
  const Batch b = Batcher(load(kPairs), {.batch_size = 1, .answers = {.padding = 2}}).batch(0, 0);
  EXPECT_EQ(b.target_rows, (Ids{3, 7}));
  EXPECT_EQ(b.compared.first_answer, (Ids{0, 1}));
  EXPECT_EQ(scored_row(Ids{4, 2, 2, 5, 2, 2}, 2), 3);
  EXPECT_EQ(scored_row(Ids{2, 2}, 2), 0) << "nothing but padding";
}

TEST_F(PreferenceTest, AnswersWithLabels) {
  wanted = {.kind = RowKind::labelled, .objective = "kto"};
  const Dataset d = load(
      "{\"prompt_ids\":[5],\"completion_ids\":[7,2],\"label\":true}\n"
      "{\"prompt_ids\":[5],\"completion_ids\":[8,2],\"label\":0}");
  EXPECT_EQ(d.value(0), 1);
  EXPECT_EQ(d.value(1), 0);
  EXPECT_EQ(ids(d[1].labels), (Ids{-100, 8, 2}));
  EXPECT_NE(
      error(R"({"prompt_ids":[5],"completion_ids":[7],"label":"yes"})").find("label: must be true or false"),
      std::string::npos);
}

// KTO compares an answer with another row's prompt, which may leave room for the tokens that are cut here.
TEST_F(PreferenceTest, TheCutPartOfALabelledAnswerIsKept) {
  wanted = {.kind = RowKind::labelled, .objective = "kto"};
  config.max_seq_length = 4;
  const Dataset d = load(
      "{\"prompt_ids\":[5,6,7],\"completion_ids\":[8,9,10,2],\"label\":true}\n"
      "{\"prompt_ids\":[5],\"completion_ids\":[3,2],\"label\":false}\n");
  EXPECT_EQ(ids(d[0].input_ids), (Ids{5, 6, 7, 8}));
  EXPECT_EQ(ids(d[0].labels), (Ids{-100, -100, -100, 8}));
  EXPECT_EQ(ids(d.tail(0)), (Ids{9, 10, 2}));
  EXPECT_TRUE(d.tail(1).empty());
  EXPECT_EQ(d.tokens(), 4 + 3);
  EXPECT_EQ(d.longest(), 4);
  const Batcher batches(d, {.batch_size = 2});
  const Batch b = batches.batch(0, 0);
  EXPECT_EQ(b.input_ids, (Ids{5, 6, 7, 8, 5, 3, 2}));
  EXPECT_EQ(b.compared.tails, (std::vector<Ids>{{9, 10, 2}, {}}));
}

// A token that spans the prompt's end and the answer's begin belongs to the answer.
TEST_F(PreferenceTest, TheAnswerBeginsWhereThePromptsTokensEnd) {
  const Dataset d = load(R"({"prompt": "Ada ha", "chosen": "s", "rejected": "t", "other": 5})");
  const Ids chosen = tokenizer->encode_with_specials("Ada has</s>"),
            prompt = tokenizer->encode_with_specials("Ada ha");
  EXPECT_EQ(ids(d[0].input_ids), chosen);
  const auto border = std::mismatch(prompt.begin(), prompt.end(), chosen.begin()).first - prompt.begin();
  EXPECT_LT(border, std::ssize(prompt)) << "the case is one where they merge";
  EXPECT_EQ(std::count(d[0].labels.begin(), d[0].labels.end(), kIgnored), border);
  EXPECT_EQ(std::count(d.rejected(0).labels.begin(), d.rejected(0).labels.end(), kIgnored), border);
  EXPECT_EQ(d.rejected(0).input_ids.back(), 2);
}

TEST_F(PreferenceTest, AMissingPromptIsTheCommonBeginning) {
  const auto taken = [](std::string a, std::string b) {
    const std::string prompt = take_shared_prompt(a, b);
    return prompt + "|" + a + "|" + b;
  };
  EXPECT_EQ(taken("Say: yes", "Say: no"), "Say:| yes| no");
  EXPECT_EQ(taken("abx", "aby"), "ab|x|y");
  EXPECT_EQ(taken("x", "y"), "|x|y");
  EXPECT_EQ(taken("ab", "abc"), "a|b|bc") << "as TRL: the last that they share stays";
  EXPECT_EQ(taken("z\xC3\xA9", "z\xC3\xA8"), "z|\xC3\xA9|\xC3\xA8") << "characters are whole";
  const Json q = {{"role", "user"}, {"content", "q"}}, x = {{"role", "assistant"}, {"content", "x"}},
             y = {{"role", "assistant"}, {"content", "y"}};
  std::vector<Json> a{q, x}, b{q, y};
  EXPECT_EQ(take_shared_prompt(a, b), std::vector<Json>{q});
  EXPECT_EQ(a, std::vector<Json>{x});
}

constexpr const char* kToolTemplate =
    "{{ begin }}{% for t in tools or [] %}{{ t['name'] }} {% endfor %}"
    "{% for m in messages %}{{ m['content'] }} {% endfor %}";

TEST_F(PreferenceTest, ParquetHasAllThatATemplateSees) {
  config.chat_template = kToolTemplate;
  config.datasets[0].path = source_path("tests/golden/parquet/preference.parquet");
  const Dataset d = load();
  EXPECT_EQ(ids(d[0].input_ids), tokenizer->encode("Ada Ada has a "));
  EXPECT_EQ(ids(d.rejected(0).input_ids), tokenizer->encode("Ada Ada has t "));
}

TEST_F(PreferenceTest, ConversationsMayHaveTools) {
  config.chat_template = kToolTemplate;
  const std::string row = R"({"prompt": [{"role": "user", "content": "has"}],
    "chosen": [{"role": "assistant", "content": "a"}], "rejected": [{"role": "assistant", "content": "t"}])";
  const std::string flat = [&] {
    std::string line = row;
    std::erase(line, '\n');
    return line;
  }();
  const auto chosen = [&](const std::string& more) { return ids(load(flat + more + "}")[0].input_ids); };
  EXPECT_EQ(chosen(""), tokenizer->encode("has a "));
  EXPECT_EQ(chosen(R"(, "tools": [{"name": "Ada"}])"), tokenizer->encode("Ada has a "));
  EXPECT_EQ(chosen(R"(, "tools": "[{\"name\": \"Ada\"}]")"), tokenizer->encode("Ada has a "));
  EXPECT_NE(error(flat + R"(, "tools": 5})").find("tools: must be a list"), std::string::npos);
  config.tools.text = R"([{"name": "Ada"}])";
  EXPECT_EQ(chosen(""), tokenizer->encode("Ada has a "));
  EXPECT_EQ(chosen(R"(, "tools": null)"), tokenizer->encode("has a "));
  EXPECT_EQ(chosen(R"(, "chat_template_kwargs": {"tools_": 1, "begin": "Ada "})"),
            tokenizer->encode("Ada Ada has a "));
  const auto refused = [&](const char* text) {
    return error(text, Exit::config)
        .starts_with("data.tools: has no effect on t.jsonl:1, which is plain text");
  };
  EXPECT_TRUE(refused(R"({"prompt":"a","chosen":"b","rejected":"c"})"));
  config.chat_template = "chatml";
  EXPECT_NE(error(flat + "}").find("chat formats do not use it"), std::string::npos);
  wanted = {.kind = RowKind::prompt, .objective = "grpo"};
  EXPECT_TRUE(refused(R"({"prompt":"a"})"));
}

TEST_F(PreferenceTest, WrongRowsAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"prompt_ids":[5],"chosen_ids":[8]})", "no \"rejected_ids\""},
      {R"({"prompt_ids":[5],"chosen_ids":[],"rejected_ids":[8]})", "chosen_ids: empty"},
      {R"({"prompt_ids":[400],"chosen_ids":[5],"rejected_ids":[8]})", "prompt_ids[0] is 400"},
      {R"({"prompt_ids":5,"chosen_ids":[5],"rejected_ids":[8]})", "must be a list of ids"},
      {R"({"prompt_ids":[1.5],"chosen_ids":[5],"rejected_ids":[8]})", "prompt_ids[0] is 1.5"},
      {R"({"prompt_ids":[5],"chosen_ids":[5],"rejected_ids":[8],"margin":"x"})", "margin: must be a number"}};
  config.datasets[0].type = &row_formats::kPreferenceTokenized;
  for (const auto& [row, words] : cases) {
    const std::string said = error(row);
    EXPECT_NE(said.find(words), std::string::npos) << said;
    EXPECT_NE(said.find("t.jsonl:1"), std::string::npos) << said;
  }
  config.datasets[0].type = &row_formats::kPreference;
  EXPECT_NE(error(R"({"prompt":"a","chosen":5,"rejected":"b"})").find("chosen: must be"), std::string::npos);
  EXPECT_NE(error(R"({"prompt":"a","chosen":"x","rejected":["b"]})").find("rejected: must be a text"),
            std::string::npos);
}

TEST_F(PreferenceTest, RowsOfAnotherObjectiveAreRefused) {
  config.datasets[0].type = &row_formats::kTokenized;
  const std::string said = error(R"({"input_ids":[5]})", Exit::config);
  EXPECT_NE(said.find("objective.type dpo is for pairs of answers: preference"), std::string::npos) << said;
  wanted = {};
  config.datasets[0].type = &row_formats::kPreference;
  EXPECT_NE(error(R"({"prompt":"a","chosen":"b","rejected":"c"})", Exit::config).find("preference_chosen"),
            std::string::npos);
  config.datasets[0].type = &row_formats::kDetected;
  EXPECT_EQ(load(R"({"prompt":"a","chosen":"b","rejected":"c"})").kind(), RowKind::example) << "as ever";
}

const char* const kRollouts =
    "{\"prompt_ids\":[5,6],\"completion_ids\":[7,2],\"reward\":1,\"old_logps\":[-0.5,-1]}\n"
    "{\"prompt_ids\":[5,6],\"completion_ids\":[8,9,2],\"reward\":0.25}\n"
    "{\"prompt_ids\":[4],\"completion_ids\":[7],\"reward\":-1}\n"
    "{\"prompt_ids\":[4],\"completion_ids\":[2],\"reward\":0}\n";

TEST_F(PreferenceTest, AnswersShareThePromptButForItsLastToken) {
  const Batcher batcher(load(kPairs), {.batch_size = 2, .answers = {.share = true}});
  const Batch b = batcher.batch(0, 0);
  EXPECT_EQ(b.input_ids, (Ids{5, 6, 7, 8, 2, 6, 9, 2, 5, 2, 5, 9, 9, 9, 2}));
  EXPECT_EQ(b.positions, (Ids{0, 1, 2, 3, 4, 1, 2, 3, 0, 1, 0, 1, 2, 3, 4}));
  EXPECT_EQ(b.starts, (Ids{0, 8, 15}));
  EXPECT_EQ(b.target_rows, (Ids{1, 2, 3, 5, 6, 8, 10, 11, 12, 13}));
  EXPECT_EQ(b.whole_rows, (Ids{0, 1, 2, 3, 4, 0, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}));
  EXPECT_EQ(b.whole_starts, (Ids{0, 5, 9, 11, 16}));
  EXPECT_EQ(b.compared.first_target, (Ids{0, 3, 5, 6, 10}));
  const BatchShape s = batcher.shape(0, 0);
  EXPECT_EQ(s.tokens, 15);
  EXPECT_EQ(s.whole, 16);
  EXPECT_EQ(s.longest, 5);
  const Batch scored =
      Batcher(load(kPairs), {.batch_size = 2, .answers = {.share = true, .padding = 2}}).batch(0, 0);
  EXPECT_EQ(scored.target_rows, (Ids{3, 6, 8, 13}));
  const Batch ends =
      Batcher(load(kPairs), {.batch_size = 1, .answers = {.share = true, .padding = 9}}).batch(0, 0);
  EXPECT_EQ(ends.target_rows, (Ids{4, 7}));
}

TEST_F(PreferenceTest, AShapeIsThatOfTheBatch) {
  for (const bool share : {false, true})
    for (const std::int64_t rows : {1, 2}) {
      const Batcher batcher(load(kPairs), {.batch_size = rows, .answers = {.share = share}});
      for (std::int64_t i = 0; i < batcher.batches_per_epoch(); ++i) {
        const BatchShape s = batcher.shape(0, i), of = shape_of(batcher.batch(0, i));
        EXPECT_EQ(std::tie(s.tokens, s.targets, s.sequences, s.longest, s.compared, s.whole),
                  std::tie(of.tokens, of.targets, of.sequences, of.longest, of.compared, of.whole));
      }
    }
}

TEST_F(PreferenceTest, AnswersWithRewards) {
  wanted = {.kind = RowKind::rollout, .objective = "grpo"};
  config.dataset_prepared_path = "prepared";
  for (int again = 0; again < 2; ++again) {
    const Dataset d = load(kRollouts);
    EXPECT_EQ(d.value(1), 0.25f);
    EXPECT_EQ(d.old_logps(0).size(), 2u);
    EXPECT_EQ(d.old_logps(0)[1], -1);
    EXPECT_TRUE(d.old_logps(1).empty());
    const Batch b = Batcher(d, {.batch_size = 2}).batch(0, 0);
    EXPECT_EQ(b.targets, (Ids{7, 2, 8, 9, 2}));
    ASSERT_EQ(b.compared.old.size(), 5u);
    EXPECT_EQ(b.compared.old[0], -0.5f);
    EXPECT_TRUE(std::isnan(b.compared.old[2]));
    EXPECT_NO_THROW(require_groups(d, 2));
  }
  EXPECT_NE(error_of(Exit::input, [&] { require_groups(load(kRollouts), 4); }).find("t.jsonl:3: the prompt"),
            std::string::npos);
  const Batcher shuffled(load(kRollouts), {.batch_size = 2, .shuffle = true, .group = 2});
  for (std::int64_t epoch = 0; epoch < 4; ++epoch)
    EXPECT_EQ(shuffled.batch(epoch, 0).compared.sample[0] + 1, shuffled.batch(epoch, 0).compared.sample[1]);
}

TEST_F(PreferenceTest, RolloutsThatCannotBeUsedAreNamed) {
  wanted = {.kind = RowKind::rollout, .objective = "grpo"};
  EXPECT_NE(error(R"({"prompt_ids":[5],"completion_ids":[7],"reward":"x"})").find("reward: must be a number"),
            std::string::npos);
  EXPECT_NE(error(R"({"prompt_ids":[5],"completion_ids":[7],"reward":1,"old_logps":[1,2]})")
                .find("old_logps: must be 1 numbers"),
            std::string::npos);
  config.max_seq_length = 3;
  EXPECT_NE(error(kRollouts).find("rollouts are never cut"), std::string::npos);
}

TEST_F(PreferenceTest, PreparedTokensAreTheSame) {
  config.dataset_prepared_path = "prepared";
  const Dataset first = load(kPairs), again = load(kPairs);
  for (std::int64_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(ids(first[i].labels), ids(again[i].labels));
    EXPECT_EQ(ids(first.rejected(i).input_ids), ids(again.rejected(i).input_ids));
    EXPECT_EQ(first.value(i), again.value(i));
  }
}

}  // namespace
}  // namespace ft
