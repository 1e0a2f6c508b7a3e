// Sources and targets of encoder-decoders: rows, lengths, the decoder's input, settings of other models.
#include "data/rows/seq2seq.h"

#include <gtest/gtest.h>

#include "data/batches/batcher.h"
#include "data/batches/load.h"
#include "tests/data/scratch.h"
#include "tests/support/source.h"

namespace ft {
namespace {

using test::error_of;
using test::Scratch;
using Ids = std::vector<std::int32_t>;

class Seq2SeqTest : public testing::Test {
 protected:
  Seq2SeqTest() {
    config.datasets.resize(1);
    config.datasets[0].path = "t.jsonl";
  }
  LoadedData load(const std::string& text) {
    scratch.write("t.jsonl", text);
    return load_data(config, 1,
                     {.base = scratch.folder(),
                      .vocab_size = 400,
                      .tokenizer = [&]() -> const Tokenizer& { return *tokenizer; },
                      .seq2seq = tokens});
  }
  std::string error(const std::string& text, Exit code) {
    return error_of(code, [&] { load(text); });
  }
  static Ids source(const Dataset& d, std::int64_t i = 0) {
    return {d[i].input_ids.begin(), d[i].input_ids.end()};
  }
  static Ids target(const Dataset& d, std::int64_t i = 0) { return {d[i].labels.begin(), d[i].labels.end()}; }

  const Scratch scratch;
  DataConfig config;
  std::optional<Seq2Seq> tokens{{.start = 9, .pad = 7, .end = 2}};
  std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(source_path("tests/data/tiny_tokenizer"));
};

constexpr const char* kTokens = R"({"input_ids": [5, 6, 2], "labels": [8, 2]}
{"input_ids": [4], "labels": [3, -100, 6, 2]}
{"input_ids": [0, 5, 5, 0], "labels": [8], "attention_mask": [0, 1, 1, 0]}
)";

TEST_F(Seq2SeqTest, TextsEndWithTheEndToken) {
  const Ids prompt{1, 301, 274, 2}, answer{1, 301, 2};  // this tokenizer also puts a 1 before a text
  for (const char* row :
       {R"({"prompt": "Ada has", "completion": "Ada"})", R"({"question": "Ada has", "answer": "Ada"})"}) {
    const auto data = load(row);
    EXPECT_EQ(source(data.train), prompt) << row;
    EXPECT_EQ(target(data.train), answer) << row;
  }
  config.datasets[0].source_lang = "en";
  config.datasets[0].target_lang = "ro";
  config.datasets[0].source_prefix = "Ada ";
  const auto data = load(R"({"translation": {"en": "has", "ro": "Ada"}})");
  EXPECT_EQ(source(data.train), prompt);
  EXPECT_EQ(target(data.train), answer);
  EXPECT_EQ(data.train.tokens(), 7);
  EXPECT_EQ(data.train.targets(), 3);
}

TEST_F(Seq2SeqTest, BatchesShiftTheTargetRight) {
  const auto data = load(kTokens);
  const Batcher batcher(data.train, {.batch_size = 2, .seq2seq = *tokens});
  ASSERT_EQ(batcher.batches_per_epoch(), 2);
  const Batch b = batcher.batch(0, 0);
  EXPECT_EQ(b.source_ids, (Ids{5, 6, 2, 4}));
  EXPECT_EQ(b.source_starts, (Ids{0, 3, 4}));
  EXPECT_EQ(b.input_ids, (Ids{9, 8, 9, 3, 7, 6}));
  EXPECT_EQ(b.positions, (Ids{0, 1, 0, 1, 2, 3}));
  EXPECT_EQ(b.starts, (Ids{0, 2, 6}));
  EXPECT_EQ(b.target_rows, (Ids{0, 1, 2, 4, 5}));
  EXPECT_EQ(b.targets, (Ids{8, 2, 3, 6, 2}));
  const BatchShape s = batcher.shape(0, 0);
  EXPECT_EQ(s.tokens, 6);
  EXPECT_EQ(s.targets, 5);
  EXPECT_EQ(s.sequences, 2);
  EXPECT_EQ(s.longest, 4);
  EXPECT_EQ(s.source_tokens, 4);
  EXPECT_EQ(s.longest_source, 3);
  EXPECT_EQ(batcher.batch(0, 1).source_ids, (Ids{5, 5}));  // tokens with mask 0 are left out
}

TEST_F(Seq2SeqTest, EachSideHasItsLength) {
  config.max_source_length = 2;
  config.max_target_length = 3;
  auto data = load(kTokens);
  EXPECT_EQ(source(data.train, 0), (Ids{5, 2}));  // the end token stays
  EXPECT_EQ(target(data.train, 1), (Ids{3, -100, 2}));
  EXPECT_EQ(data.notes,
            std::vector<std::string>{"2 of 3 training samples are longer than data.max_source_length "
                                     "(2) or data.max_target_length (3) and were cut"});
  config.truncation = Truncation::keep_end;
  data = load(kTokens);
  EXPECT_EQ(source(data.train, 0), (Ids{6, 2}));
  EXPECT_EQ(target(data.train, 1), (Ids{-100, 6, 2}));
  config.truncation = Truncation::drop;
  EXPECT_EQ(load(kTokens).train.size(), 1);
  config.truncation = Truncation::error;
  EXPECT_EQ(error(kTokens, Exit::input),
            "t.jsonl:1: a source of 3 tokens; data.max_source_length is 2 and data.truncation is error");
  config.max_source_length = 9;
  EXPECT_EQ(error(kTokens, Exit::input),
            "t.jsonl:2: a target of 4 tokens; data.max_target_length is 3 and data.truncation is error");
}

TEST_F(Seq2SeqTest, WrongRowsAreNamed) {
  EXPECT_EQ(error(R"({"input_ids": [5], "labels": []})", Exit::input), "t.jsonl:1: labels: empty");
  EXPECT_EQ(error(R"({"input_ids": [5], "labels": [400]})", Exit::input),
            "t.jsonl:1: labels[0] is 400; the model's tokens are 0 to 399, and -100 means not trained");
  EXPECT_EQ(error(R"({"input_ids": [5, 6], "labels": [4], "attention_mask": [1]})", Exit::input),
            "t.jsonl:1: attention_mask: 1 values for 2 input_ids");
  EXPECT_EQ(
      error(R"({"text": "Ada"})", Exit::config),
      "data.datasets[0]: rows of type text have no source and target, which an encoder-decoder needs; it "
      "takes prompt_completion, alpaca, translation, preference_chosen and tokenized");
}

TEST_F(Seq2SeqTest, SettingsOfOtherModelsAreRefused) {
  const auto refused = [&](auto set) {
    const DataConfig before = config;
    set();
    const std::string text = error(kTokens, Exit::config);
    config = before;
    return text;
  };
  EXPECT_EQ(refused([&] { config.packing = true; }),
            "data.packing: not for encoder-decoders; their batches have no padding either way");
  EXPECT_EQ(refused([&] { config.pad_to_max_length = true; }),
            "data.pad_to_max_length: not for encoder-decoders");
  EXPECT_EQ(refused([&] { config.train_on_inputs = true; }),
            "data.train_on_inputs: an encoder-decoder writes the target only");
  EXPECT_EQ(refused([&] { config.max_seq_length = 5; }),
            "data.max_seq_length: an encoder-decoder's samples are cut to data.max_source_length and "
            "data.max_target_length");
  tokens.reset();
  EXPECT_EQ(
      refused([&] { config.max_source_length = 5; }),
      "data.max_source_length: only encoder-decoders have sources and targets; set data.max_seq_length");
  EXPECT_EQ(
      refused([&] { config.max_target_length = 5; }),
      "data.max_target_length: only encoder-decoders have sources and targets; set data.max_seq_length");
}

}  // namespace
}  // namespace ft
