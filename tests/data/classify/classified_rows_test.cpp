// Rows with labels, and texts to embed: their meaning, their place in a batch, and every refusal.
#include <gtest/gtest.h>

#include "data/batches/batcher.h"
#include "tests/data/loaded_rows.h"

namespace ft {
namespace {

using Ids = std::vector<std::int32_t>;

class ClassifiedRowsTest : public test::LoadedRows {
 protected:
  ClassifiedRowsTest() {
    wanted = {
        .kind = RowKind::classified, .objective = "classify", .labels = {.names = {"ham", "spam", "ad"}}};
  }
  std::vector<float> label(const std::string& row) {
    const Dataset data = load(row + "\n");
    const auto all = data.classes(0);
    return {all.begin(), all.end()};
  }
  static Batch batch(const Dataset& data, std::optional<std::int32_t> padding,
                     TextTargets texts = TextTargets::last) {
    return Batcher(data, {.batch_size = 8, .padding = padding, .texts = texts}).batch(0, 0);
  }
};

TEST_F(ClassifiedRowsTest, AClassIsANameOrANumber) {
  EXPECT_EQ(label(R"({"text": "Ada has", "label": "spam"})"), std::vector<float>{1});
  EXPECT_EQ(label(R"({"text": "Ada has", "label": 2})"), std::vector<float>{2});
  EXPECT_EQ(label(R"({"input_ids": [5, 6], "label": 0})"), std::vector<float>{0});
  wanted.labels.names = {"no", "yes"};
  EXPECT_EQ(label(R"({"text": "Ada", "label": true})"), std::vector<float>{1});
}

TEST_F(ClassifiedRowsTest, SeveralLabelsAreNumbersOrNames) {
  wanted.labels.kind = LabelKind::several;
  EXPECT_EQ(label(R"({"text": "Ada", "label": [0, 1, 0.5]})"), (std::vector<float>{0, 1, 0.5f}));
  EXPECT_EQ(label(R"({"text": "Ada", "label": ["ad", "ham"]})"), (std::vector<float>{1, 0, 1}));
  EXPECT_EQ(label(R"({"text": "Ada", "label": []})"), (std::vector<float>{0, 0, 0}));
  wanted.labels = {.names = {"near"}, .kind = LabelKind::several};
  EXPECT_EQ(label(R"({"text": "Ada", "text_pair": "has", "label": 1})"), std::vector<float>{1});
  wanted.labels.kind = LabelKind::numbers;
  EXPECT_EQ(label(R"({"text": "Ada", "label": -3.5})"), std::vector<float>{-3.5f});
}

TEST_F(ClassifiedRowsTest, APairsTextsFollowEachOther) {
  const Dataset data = load(R"({"text": "Ada has", "text_pair": "has", "label": 0})"
                            "\n");
  Ids want = tokenizer->encode_with_specials("Ada has");
  for (const std::int32_t id : tokenizer->encode_with_specials("has")) want.push_back(id);
  EXPECT_EQ(Ids(data[0].input_ids.begin(), data[0].input_ids.end()), want);
}

TEST_F(ClassifiedRowsTest, TheLastTokenThatIsNoPaddingIsScored) {
  const Dataset data = load(
      "{\"input_ids\": [5, 6, 7, 0, 0], \"label\": 1}\n{\"input_ids\": [8, 9], \"label\": 2}\n"
      "{\"input_ids\": [0, 0], \"label\": 0}\n{\"input_ids\": [7], \"label\": 0}\n");
  const Batch b = batch(data, 0);
  EXPECT_EQ(b.target_rows, (Ids{2, 6, 7, 9}));
  EXPECT_EQ(b.labels, (std::vector<float>{1, 2, 0, 0}));
  EXPECT_EQ(b.starts, (Ids{0, 5, 7, 9, 10}));
  EXPECT_TRUE(notes.empty()) << notes.front();
  const BatchShape want = shape_of(b), got = Batcher(data, {.batch_size = 8, .padding = 0}).shape(0, 0);
  EXPECT_EQ(got.targets, want.targets);
  EXPECT_EQ(got.tokens, want.tokens);
}

TEST_F(ClassifiedRowsTest, LongTextsAreCut) {
  config.max_seq_length = 2;
  EXPECT_EQ(load("{\"input_ids\": [5, 6, 7], \"label\": 1}\n")[0].input_ids.back(), 6);
  config.truncation = Truncation::keep_end;
  EXPECT_EQ(load("{\"input_ids\": [5, 6, 7], \"label\": 1}\n")[0].input_ids.back(), 7);
  config.truncation = Truncation::error;
  EXPECT_NE(error("{\"input_ids\": [5, 6, 7], \"label\": 1}\n").find("3 tokens"), std::string::npos);
}

TEST_F(ClassifiedRowsTest, TokensHaveClasses) {
  wanted.labels.of_tokens = true;
  const Dataset data = load("{\"input_ids\": [5, 6, 7], \"labels\": [\"spam\", -100, 2]}\n");
  const Batch b = batch(data, {});
  EXPECT_EQ(b.target_rows, (Ids{0, 2}));
  EXPECT_EQ(b.labels, (std::vector<float>{1, 2}));
  EXPECT_NE(error("{\"input_ids\": [5, 6, 7], \"labels\": [1, 2]}\n").find("a list of 3 classes"),
            std::string::npos);
}

TEST_F(ClassifiedRowsTest, AWordsClassIsOfItsFirstToken) {
  wanted.labels.of_tokens = true;
  const Dataset data = load(R"({"tokens": ["Ada", "xyz", "has"], "ner_tags": ["ad", 0, "spam"]})"
                            "\n");
  const auto [ids, labels] = data[0];
  EXPECT_EQ(tokenizer->decode(ids, true), "Ada xyz has");
  std::vector<std::pair<std::string, int>> found;
  for (std::size_t t = 0; t < ids.size(); ++t)
    if (labels[t] != kIgnored) found.emplace_back(tokenizer->token(ids[t]), labels[t]);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].second, 2);
  EXPECT_EQ(found[1].second, 0);
  EXPECT_EQ(found[2].second, 1);
  EXPECT_TRUE(found[2].first.ends_with("has")) << found[2].first;
}

TEST_F(ClassifiedRowsTest, SaysWhatIsWrongWithALabel) {
  const auto says = [&](const std::string& label, const std::string& text) {
    const std::string what = error("{\"text\": \"Ada\", \"label\": " + label + "}\n");
    EXPECT_NE(what.find("t.jsonl:1: label"), std::string::npos) << what;
    EXPECT_NE(what.find(text), std::string::npos) << what;
  };
  says("3", "is none of the 3 classes, 0 to 2; objective.num_labels sets how many there are");
  says("-1", "is none of the 3 classes");
  says("\"eggs\"", "is not one of the labels, ham, spam, ad; objective.id2label names them");
  says("0.5", "set objective.problem_type to regression");
  says("[0, 1, 0]", "set objective.problem_type to multi_label_classification or regression");
  says("{}", "must be a class or its name");
  EXPECT_NE(error("{\"text\": \"Ada\"}\n").find("no \"label\""), std::string::npos);
  EXPECT_NE(error("{\"text\": 5, \"label\": 1}\n").find("text: must be a text"), std::string::npos);
  EXPECT_NE(error("{\"input_ids\": [400], \"label\": 1}\n").find("the model's tokens are 0 to 399"),
            std::string::npos);
  EXPECT_NE(error("{\"prompt\": \"Ada\", \"completion\": \"has\"}\n", Exit::config).find("rows with a label"),
            std::string::npos);
  wanted.labels.kind = LabelKind::several;
  says("[0, 1]", "must be a list of 3 numbers");
  says("[0, 2, 0]", "is not from 0 (does not apply) to 1 (applies)");
  says("[0, null, 0]", "must be a number");
  says("1", "must be a list of 3 numbers");
}

class TextsTest : public ClassifiedRowsTest {
 protected:
  TextsTest() { wanted = {.kind = RowKind::texts, .objective = "embed"}; }
};

TEST_F(TextsTest, ARowIsSeveralSequences) {
  const Dataset data = load(
      "{\"anchor_ids\": [5, 6], \"positive_ids\": [7], \"negative_ids\": [[8, 9, 4], [3]]}\n"
      "{\"anchor_ids\": [5], \"positive_ids\": [6, 6], \"negative_ids\": [8]}\n"
      "{\"anchor_ids\": [5], \"positive_ids\": [6]}\n");
  const Batch b = batch(data, {});
  EXPECT_EQ(b.starts, (Ids{0, 2, 3, 6, 7, 8, 10, 11, 12, 13}));
  EXPECT_EQ(b.compared.first_text, (Ids{0, 4, 7, 9}));
  EXPECT_EQ(b.target_rows, (Ids{1, 2, 5, 6, 7, 9, 10, 11, 12}));
  const Batch all = batch(data, {}, TextTargets::all);
  EXPECT_EQ(all.target_rows.size(), all.input_ids.size());
  EXPECT_EQ(all.compared.first_target, all.starts);
  EXPECT_EQ(b.compared.rows(), 3);
}

TEST_F(TextsTest, EachTextIsCut) {
  config.max_seq_length = 2;
  const Dataset data = load("{\"anchor_ids\": [5, 6, 7], \"positive_ids\": [7, 8, 9]}\n");
  EXPECT_EQ(Ids(data[0].input_ids.begin(), data[0].input_ids.end()), (Ids{5, 6, 7, 8}));
  EXPECT_EQ(batch(data, {}).starts, (Ids{0, 2, 4}));
}

TEST_F(TextsTest, TextsAreTokenized) {
  const Dataset data = load(R"({"anchor": "Ada", "positive": "has", "negative": ["Ada has", "has"]})"
                            "\n");
  EXPECT_EQ(batch(data, {}).compared.first_text, (Ids{0, 4}));
  EXPECT_NE(error("{\"anchor\": \"Ada\", \"positive\": 3}\n").find("positive: must be a text"),
            std::string::npos);
  EXPECT_NE(error("{\"anchor\": \"Ada\", \"positive\": null}\n").find("no \"positive\""), std::string::npos);
}

}  // namespace
}  // namespace ft
