// Reading datasets: tokenized rows, truncation, the held-out split, weights, and an error's text for
// everything that can be wrong.
#include "data/batches/load.h"

#include <gtest/gtest.h>

#include <set>

#include "data/row_formats.h"
#include "tests/data/scratch.h"

namespace ft {
namespace {

using test::error_of;
using test::Scratch;
using Ids = std::vector<std::int32_t>;

std::vector<DatasetConfig> from(const std::string& path) {
  DatasetConfig d;
  d.path = path;
  return {d};
}
Ids ids(const Dataset& d, std::int64_t i) { return {d[i].input_ids.begin(), d[i].input_ids.end()}; }
Ids labels(const Dataset& d, std::int64_t i) { return {d[i].labels.begin(), d[i].labels.end()}; }

std::string numbered(int n) {
  std::string text;
  for (int i = 0; i < n; ++i) text += str("{\"input_ids\": [", i % 64, ", ", i / 64 % 64, "]}\n");
  return text;
}

class Load : public testing::Test {
 protected:
  Load() { config.datasets = from("t.jsonl"); }
  LoadedData load(LoadPart part = LoadPart::train_and_eval) {
    return load_data(config, 42, {.base = scratch.folder(), .vocab_size = 64, .tokenizer = no_tokenizer},
                     part);
  }
  LoadedData load(const std::string& text) {
    scratch.write("t.jsonl", text);
    return load();
  }
  std::string error(const std::string& text, Exit code = Exit::input) {
    return error_of(code, [&] { load(text); });
  }
  std::string error(Exit code = Exit::input) {
    return error_of(code, [&] { load(); });
  }
  static const Tokenizer& no_tokenizer() { throw UserError(Exit::input, "no tokenizer"); }

  const Scratch scratch;
  DataConfig config;
};

TEST_F(Load, TokenizedRows) {
  const auto data = load(R"({"id": 1, "input_ids": [5, 6, 7], "labels": [-100, 6, 9]}
{"input_ids": [1, 2], "labels": null}

{"input_ids": [0, 0, 8, 9, 0], "labels": [-100, -100, 8, 9, -100], "attention_mask": [0, 0, 1, 1, 0]}
)");
  ASSERT_EQ(data.train.size(), 3);
  EXPECT_EQ(ids(data.train, 0), (Ids{5, 6, 7}));
  EXPECT_EQ(labels(data.train, 0), (Ids{-100, 6, 9}));
  EXPECT_EQ(labels(data.train, 1), (Ids{1, 2}));
  EXPECT_EQ(ids(data.train, 2), (Ids{8, 9}));
  EXPECT_EQ(data.train.source(2), "t.jsonl:4");
  EXPECT_EQ(data.train.tokens(), 7);
  EXPECT_EQ(data.train.targets(), 4);
  EXPECT_EQ(data.train.longest(), 3);
  EXPECT_EQ(data.eval.size(), 0);
}

// Missing values as pandas writes them are accepted in columns that are not read.
TEST_F(Load, NanIsRefusedInTokensOnly) {
  const std::string rows = "{\"input_ids\": [1, 2], \"score\": NaN, \"all\": {\"x\": [-Infinity]}}\n";
  EXPECT_EQ(ids(load(rows).train, 0), (Ids{1, 2}));
  scratch.write("t.json", "[" + rows + ", " + rows + "]");
  config.datasets = from("t.json");
  EXPECT_EQ(load().train.size(), 2);
  config.datasets = from("t.jsonl");
  EXPECT_EQ(error("{\"input_ids\": [1, NaN]}\n"),
            "t.jsonl:1: input_ids[1]: expected an integer, not the number NaN");
  EXPECT_EQ(error("{\"input_ids\": Infinity}\n"),
            "t.jsonl:1: input_ids: expected a list of integers, not the number Infinity");
}

TEST_F(Load, AMissingFileHasAPlaceAndANeighbour) {
  scratch.write("train.jsonl", "");
  config.datasets = from("trian.jsonl");
  config.datasets[0].place = "run.json:5";
  EXPECT_EQ(
      error(),
      "trian.jsonl: no such file or folder; do you mean train.jsonl? (run.json:5: data.datasets[0].path)");
}

TEST_F(Load, ErrorsNameTheLine) {
  const std::string good = "{\"input_ids\": [1, 2]}\n";
  EXPECT_EQ(error(good + "{\"input_ids\": [5, -6, 7]}"),
            "t.jsonl:2: input_ids[1] is -6; the model's tokens are 0 to 63");
  EXPECT_EQ(error(good + "{\"input_ids\": [64]}"),
            "t.jsonl:2: input_ids[0] is 64; the model's tokens are 0 to 63");
  EXPECT_EQ(error(good + "{\"input_ids\": [99999999999999999999]}"),
            "t.jsonl:2: input_ids[0]: expected an integer, not the number 1e+20");
  EXPECT_EQ(error(good + "{\"input_ids\": [1, 2], \"labels\": [1, 999]}"),
            "t.jsonl:2: labels[1] is 999; the model's tokens are 0 to 63, and -100 means not trained");
  EXPECT_EQ(error(good + "{\"input_ids\": [1, 2], \"labels\": [1, -1]}"),
            "t.jsonl:2: labels[1] is -1; the model's tokens are 0 to 63, and -100 means not trained");
  EXPECT_EQ(error(good + "{\"input_ids\": [1, 2], \"labels\": [1]}"),
            "t.jsonl:2: labels: 1 values for 2 input_ids");
  EXPECT_EQ(error(good + "{\"input_ids\": []}"), "t.jsonl:2: input_ids: empty");
  EXPECT_EQ(error(good + "{\"input_ids\": \"five\"}"),
            "t.jsonl:2: input_ids: expected a list of integers, not a string");
  EXPECT_EQ(error(good + "{\"input_ids\": [1, \"2\"]}"),
            "t.jsonl:2: input_ids[1]: expected an integer, not a string");
  EXPECT_EQ(error(good + "{\"input_ids\": [1, 2.5]}"),
            "t.jsonl:2: input_ids[1]: expected an integer, not the number 2.5");
  EXPECT_EQ(error(good + "{\"input_ids\": [1, null]}"),
            "t.jsonl:2: input_ids[1]: expected an integer, not null");
  EXPECT_EQ(error(good + "{\"input_ids\": [[1]]}"),
            "t.jsonl:2: input_ids[0]: expected an integer, not a list");
  EXPECT_EQ(error(good + "{\"input_ids\": 3}"),
            "t.jsonl:2: input_ids: expected a list of integers, not the number 3");
  EXPECT_EQ(error(good + "{\"input_ids\": {\"input_ids\": [1]}}"),
            "t.jsonl:2: input_ids: expected a list of integers, not an object");
  EXPECT_EQ(error(good + "{\"input_ids\": null}"),
            "t.jsonl:2: input_ids: expected a list of integers, not null");
  EXPECT_EQ(error(good + "{\"text\": \"a\", \"x\": {\"input_ids\": [1]}}"),
            "t.jsonl:2: no \"input_ids\"; the row has text, x");
  EXPECT_EQ(error(good + "{\"input_ids\": [1], \"input_ids\": [2]}"), "t.jsonl:2: input_ids: given twice");
  EXPECT_EQ(error(good + "[1, 2]"), "t.jsonl:2: the row is a list, not an object");
  EXPECT_EQ(error(good + "7"), "t.jsonl:2: the row is a number, not an object");
}

TEST_F(Load, ErrorsOfJson) {
  const std::string good = "{\"input_ids\": [1, 2]}\n";
  EXPECT_EQ(error(good + "{\"input_ids\": [1 2]}"),
            "t.jsonl:2: not JSON: expected ',' or ']' at column 18\n"
            "  {\"input_ids\": [1 2]}\n"
            "                   ^");
  EXPECT_EQ(error(good + "{\"input_ids\": [1, 2]"),
            "t.jsonl:2: not JSON: expected ',' or '}' at column 21\n"
            "  {\"input_ids\": [1, 2]\n"
            "                      ^");
  EXPECT_EQ(error(good + std::string("{\"input_ids\": \0[1, 2]}", 22)), "t.jsonl:2: not JSON: a zero byte");
  EXPECT_EQ(error(good + "{\"input_ids\": [1, 2], \"x\": \"\xFF\xC3\xBC\"}"),
            "t.jsonl:2: not JSON: invalid string: ill-formed UTF-8 byte at column 29\n  {\"input_ids\": [1, "
            "2], \"x\": \"\\xff\xC3\xBC\"}\n"
            "                              ^");
  EXPECT_EQ(error(good + "{\"input_ids\": [1, 2]} {}"),
            "t.jsonl:2: not JSON: more text after the value at column 23\n"
            "  {\"input_ids\": [1, 2]} {}\n                        ^");
  EXPECT_EQ(error(good + std::string(200, 'a')),
            "t.jsonl:2: not JSON: invalid literal at column 1\n  " + std::string(40, 'a') + "\n  ^");
}

TEST_F(Load, AttentionMask) {
  EXPECT_EQ(error("{\"input_ids\": [1, 2, 3], \"attention_mask\": [1, 0, 1]}"),
            "t.jsonl:1: attention_mask[1] is 0 between ones; ft masks padding at the ends only");
  EXPECT_EQ(error("{\"input_ids\": [1, 2], \"attention_mask\": [1, 2]}"),
            "t.jsonl:1: attention_mask[1] is 2; it must be 0 or 1");
  EXPECT_EQ(error("{\"input_ids\": [1, 2], \"attention_mask\": [0, 0]}"),
            "t.jsonl:1: attention_mask: has only zeros");
  EXPECT_EQ(error("{\"input_ids\": [1, 2], \"attention_mask\": [1, 0], \"labels\": [1, 2]}"),
            "t.jsonl:1: labels[1] is trained, but attention_mask is 0 there");
}

TEST_F(Load, NothingToTrain) {
  EXPECT_EQ(error("{\"input_ids\": [1, 2], \"labels\": [-100, -100]}"),
            "t.jsonl: nothing to train on in all 1 rows: t.jsonl:1: every label is -100");
  EXPECT_EQ(error(""), "t.jsonl: no rows in it");
  EXPECT_EQ(error("\n\n"), "t.jsonl: no rows in it");
}

// Datasets of 8 and 2 samples.
TEST_F(Load, SharesDecideHowOftenAnEpochHasSamples) {
  scratch.write("t.jsonl", numbered(8));
  scratch.write("few.jsonl", "{\"input_ids\": [40, 1]}\n{\"input_ids\": [41, 1]}\n");
  config.datasets = {from("t.jsonl")[0], from("few.jsonl")[0]};
  using Counts = std::pair<int, int>;
  const auto counts = [&](StoppingStrategy stop, double share,
                          std::optional<double> temperature = std::nullopt) {
    config.stopping_strategy = stop;
    config.datasets[1].weight = share;
    config.mixture_temperature = temperature;
    const auto data = load();
    Counts all;
    for (std::int64_t i = 0; i < data.train.size(); ++i)
      ++(data.train.source(i).starts_with("few") ? all.second : all.first);
    EXPECT_NE(data.notes.end(), std::find(data.notes.begin(), data.notes.end(),
                                          "data.datasets[1]: an epoch has " + std::to_string(all.second) +
                                              " samples of its 2"));
    return all;
  };
  using enum StoppingStrategy;
  EXPECT_EQ(counts(first_exhausted, 1), (Counts{2, 2}));
  EXPECT_EQ(counts(all_exhausted, 1), (Counts{8, 8}));
  EXPECT_EQ(counts(first_exhausted, 0.5), (Counts{4, 2}));
  EXPECT_EQ(counts(all_exhausted, 0.5), (Counts{8, 4}));
  EXPECT_EQ(counts(all_exhausted, 1, 1), (Counts{8, 2})) << "by size";
  EXPECT_EQ(counts(all_exhausted, 1, 2), (Counts{8, 4})) << "by the roots of the sizes";
  config.datasets.pop_back();
  EXPECT_EQ(error(Exit::config), "data.stopping_strategy: has no effect on a single data set");
  config.datasets = {from("t.jsonl")[0], from("few.jsonl")[0]};
  config.stopping_strategy.reset();
  EXPECT_EQ(error(Exit::config), "data.mixture_temperature: has no effect without data.stopping_strategy");
}

// The smaller of two datasets with sizes n and m has the share (m / n)^(1/T) of the larger.
TEST_F(Load, RefusesSharesThatLeaveNothingOrGrowWithoutEnd) {
  scratch.write("t.jsonl", numbered(8));
  scratch.write("few.jsonl", "{\"input_ids\": [40, 1]}\n{\"input_ids\": [41, 1]}\n");
  config.datasets = {from("t.jsonl")[0], from("few.jsonl")[0]};
  const std::string many =
      "data.stopping_strategy: an epoch would have more than 1e9 samples; use first_exhausted, a larger "
      "data.mixture_temperature or more even weights";
  const std::string none =
      "]: its share of an epoch is less than one sample; use all_exhausted, a larger "
      "data.mixture_temperature or more even weights";
  config.mixture_temperature = 1e-3;  // 8^1000 and (2 / 8)^1000 are no doubles
  config.stopping_strategy = StoppingStrategy::all_exhausted;
  EXPECT_EQ(error(Exit::config), many);
  config.stopping_strategy = StoppingStrategy::first_exhausted;
  EXPECT_EQ(error(Exit::config), "data.datasets[1" + none);
  config.mixture_temperature.reset();
  config.datasets[0].weight = 1e-12;
  EXPECT_EQ(error(Exit::config), "data.datasets[0" + none);
  config.stopping_strategy = StoppingStrategy::all_exhausted;
  EXPECT_EQ(error(Exit::config), many);
  config.datasets[0].weight = 1e-4;
  EXPECT_EQ(load().train.size(), 8 + 80000);
}

TEST_F(Load, Truncation) {
  const std::string text = "{\"input_ids\": [1, 2, 3, 4, 5]}\n{\"input_ids\": [6, 7]}\n";
  config.max_seq_length = 3;
  auto data = load(text);
  EXPECT_EQ(ids(data.train, 0), (Ids{1, 2, 3}));
  EXPECT_EQ(data.notes, std::vector<std::string>{
                            "1 of 2 training samples are longer than data.max_seq_length (3) and were cut"});
  config.truncation = Truncation::keep_end;
  EXPECT_EQ(ids(load(text).train, 0), (Ids{3, 4, 5}));
  config.truncation = Truncation::drop;
  data = load(text);
  ASSERT_EQ(data.train.size(), 1);
  EXPECT_EQ(data.train.source(0), "t.jsonl:2");
  EXPECT_EQ(data.train_counts.dropped, 1);
  config.truncation = Truncation::error;
  EXPECT_EQ(error(text), "t.jsonl:1: 5 tokens; data.max_seq_length is 3 and data.truncation is error");
  config.truncation = Truncation::drop;
  config.max_seq_length = 1;
  EXPECT_EQ(error(text),
            "t.jsonl: all 2 samples are longer than data.max_seq_length (1), and data.truncation is drop");
}

TEST_F(Load, HoldsOutBySeed) {
  config.val_set_size = 0.25;
  const auto data = load(numbered(30));
  EXPECT_EQ(data.eval.size(), 8);  // rounded up
  EXPECT_EQ(data.train.size(), 22);
  std::set<std::string> sources;
  for (std::int64_t i = 0; i < 8; ++i) sources.insert(data.eval.source(i));
  for (std::int64_t i = 0; i < 22; ++i) sources.insert(data.train.source(i));
  EXPECT_EQ(sources.size(), 30U);
  EXPECT_EQ(load().eval.source(3), data.eval.source(3));
  config.data_seed = 7;
  std::set<std::string> other;
  const auto moved = load();
  for (std::int64_t i = 0; i < 8; ++i) other.insert(moved.eval.source(i));
  std::set<std::string> same;
  for (std::int64_t i = 0; i < 8; ++i)
    if (other.contains(data.eval.source(i))) same.insert(data.eval.source(i));
  EXPECT_LT(same.size(), 8U);
  config.val_set_size = 5;
  EXPECT_EQ(load().eval.size(), 5);
  config.val_set_size = 30;
  EXPECT_EQ(error(Exit::config), "data.val_set_size: holding out 30 of 30 samples leaves none to train on");
}

TEST_F(Load, SeveralDatasets) {
  scratch.write("t.jsonl", numbered(4));
  scratch.write("more/b.jsonl", "{\"input_ids\": [40, 1]}\n{\"input_ids\": [41, 1]}\n");
  scratch.write("more/a.json", "[{\"input_ids\": [42, 1]}]");
  scratch.write("more/README.md", "notes");
  config.datasets = {from("t.jsonl")[0], from("more")[0]};
  config.datasets[0].weight = 2.5;
  config.datasets[0].max_samples = 2;
  const auto data = load();
  ASSERT_EQ(data.train.size(), 2 * 2 + 1 + 3);
  std::vector<std::string> sources;
  for (std::int64_t i = 0; i < data.train.size(); ++i) sources.push_back(data.train.source(i));
  EXPECT_EQ(std::vector(sources.begin(), sources.begin() + 4),
            (std::vector<std::string>{"t.jsonl:1", "t.jsonl:2", "t.jsonl:1", "t.jsonl:2"}));
  EXPECT_EQ(std::vector(sources.begin() + 5, sources.end()),
            (std::vector<std::string>{"more/a.json:1", "more/b.jsonl:1", "more/b.jsonl:2"}));
  config.datasets = from("more/[ab]*");
  EXPECT_EQ(load().train.size(), 3);
  config.eval_datasets = from("more/b.jsonl");
  EXPECT_EQ(load().eval.size(), 2);
  EXPECT_EQ(load(LoadPart::eval).train.size(), 0);
}

TEST_F(Load, RefusesAWeightThatLeavesNoRows) {
  config.datasets = from("t.jsonl");
  config.datasets[0].weight = 0.2;
  EXPECT_EQ(error("{\"input_ids\": [1, 2]}"),
            "t.jsonl: none of the 1 rows is left: data.datasets[].weight and data.val_set_size take all");
}

TEST_F(Load, ThreadsDoNotMatter) {
  scratch.write("t.jsonl", numbered(20000));
  config.preprocessing_num_workers = 1;
  const auto one = load();
  config.preprocessing_num_workers = 5;
  const auto five = load();
  ASSERT_EQ(one.train.size(), five.train.size());
  for (std::int64_t i = 0; i < one.train.size(); ++i) ASSERT_EQ(ids(one.train, i), ids(five.train, i));
  std::ofstream(scratch.folder() / "t.jsonl", std::ios::app) << "{\"input_ids\": [1, 77]}\nx\n";
  EXPECT_EQ(error(), "t.jsonl:20001: input_ids[1] is 77; the model's tokens are 0 to 63");
}

TEST_F(Load, Paths) {
  config.datasets = from("nowhere.jsonl");
  EXPECT_EQ(error(), "nowhere.jsonl: no such file or folder (data.datasets[0].path)");
  config.datasets = from("no*.jsonl");
  EXPECT_EQ(error(), "data.datasets[0].path: no file matches no*.jsonl");
  std::filesystem::create_directory(scratch.folder() / "rows");
  config.datasets = from("rows");
  const std::string reads =
      "reads .jsonl, .ndjson, .json, .csv, .tsv and .txt, each also as .gz or .zst, and .parquet and .arrow";
  EXPECT_EQ(error(), "rows: the folder has no data files; ft " + reads);
  scratch.write("rows/x.parquet", "PAR1");
  EXPECT_EQ(error(), "rows/x.parquet: too short for a Parquet file");
  config.datasets = from("t.arrow");
  scratch.write("t.arrow", "");
  EXPECT_EQ(error(), "t.arrow: not an Arrow file: it begins with no schema");
  config.datasets = from("t.parquet.gz");
  scratch.write("t.parquet.gz", "");
  EXPECT_EQ(error(), "t.parquet.gz: .parquet files are compressed inside and not read as .gz; decompress it");
  config.datasets = from("t.jsonl.xz");
  scratch.write("t.jsonl.xz", "");
  EXPECT_EQ(error(), "t.jsonl.xz: .xz files are not read; decompress it, or compress it as .gz or .zst");
  config.datasets = from("t.dwg");
  scratch.write("t.dwg", "");
  EXPECT_EQ(error(), "t.dwg: unknown kind of data file; ft " + reads);
  scratch.write("plain", "");
  config.datasets = from("plain");
  EXPECT_EQ(error(), "plain: unknown kind of data file; ft " + reads);
  config.datasets = from("dev.jsonl");
  std::filesystem::create_symlink("/dev/zero", scratch.folder() / "dev.jsonl");
  EXPECT_EQ(error(), "dev.jsonl: not a regular file");
}

TEST_F(Load, TextsInAFolderAreDataIfItHasNoOtherFiles) {
  scratch.write("rows/a.jsonl", "{\"input_ids\": [1, 2]}\n");
  scratch.write("rows/licence.txt", "All rights reserved.\n");
  config.datasets = from("rows");
  EXPECT_EQ(load().train.size(), 1);
  std::filesystem::remove(scratch.folder() / "rows/a.jsonl");
  EXPECT_EQ(error(), "no tokenizer");
}

TEST_F(Load, Types) {
  EXPECT_EQ(
      error("{\"foo\": 1, \"bar\": 2}"),
      "t.jsonl:1: cannot tell the type of the rows from the names of their fields: foo, bar. Set "
      "data.datasets[0].type "
      "(auto, prompt_completion, alpaca, alpaca_chat, messages, sharegpt, text, input_output, translation, "
      "preference_chosen, tokenized, preference, kto, preference_tokenized, kto_tokenized, "
      "rollouts_tokenized, "
      "prompts, prompts_tokenized, token_labels, contrast, contrast_tokenized) "
      "and data.datasets[0].columns");
  config.datasets[0].type = &row_formats::kTokenized;
  config.datasets[0].columns = {{"input_ids", "tokens"}};
  EXPECT_EQ(ids(load("{\"tokens\": [3]}\n{\"tokens\": [3, 4]}").train, 1), (Ids{3, 4}));
  config.datasets[0].columns = {{"prompt", "tokens"}};
  EXPECT_EQ(
      error("{\"tokens\": [3]}", Exit::config),
      "data.datasets[0].columns.prompt: rows of type tokenized have no such column; they have input_ids, "
      "labels, attention_mask");
  config.datasets = from("t.jsonl");
  EXPECT_EQ(error("{\"prompt\": \"a\", \"completion\": \"b\"}"), "no tokenizer");
}

TEST_F(Load, SettingsOfChatsAreRefusedWhereNoRowIsOne) {
  const std::string row = "{\"input_ids\": [3, 4]}";
  config.chat_template_kwargs.text = "{}";
  EXPECT_EQ(error(row, Exit::config),
            "data.chat_template_kwargs: has no effect on rows of type tokenized (data.datasets[0]), which "
            "are not conversations; take it out");
  config.tools.text = "[]";
  EXPECT_TRUE(error(row, Exit::config).starts_with("data.tools: has no effect on rows of type tokenized"));
  config.eval_datasets = from("e.jsonl");  // it may contain conversations
  scratch.write("e.jsonl", row);
  EXPECT_EQ(load(row).train.size(), 1);
}

}  // namespace
}  // namespace ft
