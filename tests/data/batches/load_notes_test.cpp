// Notes about rows: columns that are not read, end tokens that a row has twice, rows without targets.
#include "data/batches/load_notes.h"

#include "tests/data/loaded_rows.h"

namespace ft {
namespace {

using LoadNotesTest = test::LoadedRows;

TEST_F(LoadNotesTest, ColumnsThatAreNotReadAreNamedOnce) {
  const std::string row =
      R"({"instruction": "Ada", "input": "", "output": "has", "system": "x", "history": []})";
  load(row + "\n" + row + "\n" + R"({"instruction": "Ada", "output": "has", "more": 1})");
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0],
            "t.jsonl (rows of type alpaca): not used: system, history, more (docs/data.md lists the columns "
            "of each "
            "data.datasets[].type)");
  load(R"({"instruction": "Ada", "input": "", "output": "has"})");
  EXPECT_TRUE(notes.empty());
}

TEST_F(LoadNotesTest, ColumnsOfOtherTypes) {
  const auto unused = [&](const std::string& row) {
    load(row);
    for (const std::string& note : notes)
      if (const auto end = note.find(" (docs"); end != note.npos && note.find("not used") != note.npos)
        return note.substr(0, end);
    return std::string();
  };
  EXPECT_EQ(unused(R"({"prompt": "Ada", "completion": "x", "answer": "y", "question": "z"})"),
            "t.jsonl (rows of type prompt_completion): not used: answer, question");
  EXPECT_EQ(unused(R"({"question": "Ada", "answer": "x"})"), "");
  EXPECT_EQ(unused(R"({"text": "Ada", "meta": {"text": 1}})"), "t.jsonl (rows of type text): not used: meta");
  config.chat_template = "chatml";
  const std::string turns = R"(": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}])";
  EXPECT_EQ(unused("{\"messages" + turns + R"(, "system": "z"})"),
            "t.jsonl (rows of type messages): not used: system");
  EXPECT_EQ(unused("{\"conversations" + turns + R"(, "system": "z"})"), "");
  wanted = {.kind = RowKind::pair, .objective = "dpo"};
  EXPECT_EQ(unused(R"({"prompt": "Ada", "chosen": "x", "rejected": "y", "score_chosen": 1})"),
            "t.jsonl (rows of type preference): not used: score_chosen");
  wanted = {.kind = RowKind::prompt, .objective = "grpo"};
  EXPECT_EQ(unused(R"({"prompt": "Ada", "difficulty": 1})"), "") << "rewards see the whole row";
}

TEST_F(LoadNotesTest, OfAStreamsFirstRow) {
  config.streaming = true;
  load(R"({"text": "Ada", "meta": 1})");
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("not used: meta"), std::string::npos);
}

TEST_F(LoadNotesTest, TheEndTokenIsThereOnce) {
  const std::string end = "</s>";
  for (const std::string text : {"Ada has", "Ada has</s>"}) {
    EXPECT_TRUE(text_of(load(R"({"text": ")" + text + "\"}")).ends_with("has</s>")) << text;
    EXPECT_EQ(trained(load(R"({"prompt": "x", "completion": ")" + text + "\"}")), "| Ada has</s>") << text;
  }
  const Dataset after_a_line_feed = load(R"({"text": "Ada</s>\n"})");
  const auto ids = after_a_line_feed[0].input_ids;
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 2), 2);
  EXPECT_EQ(trained(load(R"({"prompt": "x</s>", "completion": ""})")), "|</s>") << "the answer's own";
  EXPECT_TRUE(notes.empty());
}

TEST_F(LoadNotesTest, ADoubledTokenAtTheBeginning) {
  const std::string row = R"({"text": "<s>Ada"})";
  EXPECT_EQ(load(row + "\n" + R"({"text": "Ada"})" + "\n" + row)[0].input_ids[1], 1);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(
      notes[0],
      "t.jsonl:1: the text begins with <s>, which the tokenizer puts first too: it is there twice (2 of 3 "
      "rows); take it out of the texts");
  load(R"({"prompt": "<s>Ada", "completion": "has"})");
  EXPECT_EQ(notes.size(), 1u);
  wanted = {.kind = RowKind::pair, .objective = "dpo"};
  load(R"({"prompt": "<s>Ada", "chosen": "x", "rejected": "y"})");
  EXPECT_EQ(notes.size(), 1u);
}

TEST_F(LoadNotesTest, RowsWithoutTargetsAreNamed) {
  load("{\"input_ids\": [4, 5]}\n{\"input_ids\": [4, 5], \"labels\": [-100, -100]}\n{\"input_ids\": [4]}");
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(
      notes[0],
      "2 training samples have no tokens to train on: t.jsonl:2: every label is -100; t.jsonl:3: it is one "
      "token, and the first is never predicted");
}

TEST_F(LoadNotesTest, HeldOutRowsWithoutTargetsAreRefused) {
  config.val_set_size = 3;
  EXPECT_EQ(error("{\"input_ids\": [4]}\n{\"input_ids\": [4]}\n{\"input_ids\": [4]}\n{\"input_ids\": [4]}"),
            "t.jsonl: nothing to train on in all 4 rows: t.jsonl:1: it is one token, and the first is never "
            "predicted");
  const std::string rows = "{\"input_ids\": [4, 5]}\n{\"input_ids\": [4]}";
  config.val_set_size = 1;
  std::string text;
  for (config.data_seed = 0; *config.data_seed < 20 && !text.starts_with("data.val"); ++*config.data_seed)
    try {
      load(rows);
    } catch (const UserError& e) {
      text = e.what();
    }
  EXPECT_EQ(
      text,
      "data.val_set_size: none of the 1 samples that are held out has tokens to train on, such as t.jsonl:2");
}

TEST_F(LoadNotesTest, ManyPlacesAreCut) {
  Places places;
  for (int i = 0; i < 22; ++i) places.add(str("t:", i));
  EXPECT_TRUE(places.text().ends_with("t:18; t:19; and 2 more")) << places.text();
}

TEST_F(LoadNotesTest, ArePreparedToo) {
  config.dataset_prepared_path = (scratch.folder() / "prepared").string();
  const std::string row = R"({"text": "<s>Ada", "meta": 1})";
  load(row);
  const std::vector<std::string> first(notes.begin() + 1, notes.end());
  EXPECT_EQ(first.size(), 2u);
  load(row);
  EXPECT_EQ(std::vector<std::string>(notes.begin() + 1, notes.end()), first);
}

}  // namespace
}  // namespace ft
