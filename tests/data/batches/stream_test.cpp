// Streaming: every epoch contains every sample, in an order that depends on the seed alone, for batches
// requested in any order; and refusals of data that cannot be streamed.
#include "data/batches/stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/data/scratch.h"
#include "tests/support/source.h"

namespace ft {
namespace {

using test::error_of;
using test::Scratch;

class Streamed : public testing::Test {
 protected:
  Streamed() {
    config.shuffle_buffer_size = 16;
    config.max_seq_length = 8;
    config.streaming = true;
  }
  // Writes a file of n samples, each of 2 to 5 times the token first + i.
  void add(const std::string& name, int first, int n, double weight = 1) {
    std::string text;
    for (int i = 0; i < n; ++i) {
      text += "{\"input_ids\": [" + std::to_string(first + i);
      for (int t = 0; t <= i % 4; ++t) text += ", " + std::to_string(first + i);
      text += "]}\n";
    }
    scratch.write(name, text);
    DatasetConfig d;
    d.path = name;
    d.weight = weight;
    config.datasets.push_back(d);
  }
  Stream stream(std::int64_t batches = 1000) const {
    const BatcherOptions options = batcher_options(config, 3, config.shuffle, 7);
    return {
        config, {.base = scratch.folder(), .vocab_size = 1000, .tokenizer = no_tokenizer}, options, batches};
  }
  static const Tokenizer& no_tokenizer() { throw UserError(Exit::input, "no tokenizer"); }
  // Returns the first token of each sequence of the batches [begin, end); checks the batches' shapes.
  static std::vector<std::int32_t> samples(const Stream& s, std::int64_t begin, std::int64_t end) {
    std::vector<std::int32_t> all;
    const BatchShape most = s.largest();
    for (std::int64_t i = begin; i < end; ++i) {
      const Batch b = s.batch(0, i);
      const BatchShape shape = s.shape(0, i);
      EXPECT_EQ(b.tokens(), shape.tokens);
      EXPECT_EQ(std::ssize(b.targets), shape.targets);
      EXPECT_EQ(std::ssize(b.starts) - 1, shape.sequences);
      EXPECT_LE(shape.tokens, most.tokens);
      EXPECT_LE(shape.targets, most.targets);
      EXPECT_LE(shape.sequences, most.sequences);
      EXPECT_LE(shape.longest, most.longest);
      for (std::size_t q = 0; q + 1 < b.starts.size(); ++q)
        all.push_back(b.input_ids[static_cast<std::size_t>(b.starts[q])]);
    }
    return all;
  }

  const Scratch scratch;
  DataConfig config;
};

TEST_F(Streamed, EveryPassHoldsEverySample) {
  add("a.jsonl", 0, 40);
  add("b.jsonl", 100, 10);
  // Chunks of 16, 16, 16 and 2 samples give 6 + 6 + 6 + 1 batches of 3.
  for (const bool shuffle : {true, false}) {
    config.shuffle = shuffle;
    const Stream s = stream();
    std::vector<std::int32_t> before;
    for (std::int64_t pass = 0; pass < 3; ++pass) {
      const auto all = samples(s, 19 * pass, 19 * pass + 19);
      std::map<std::int32_t, int> count;
      for (const auto id : all) ++count[id];
      EXPECT_EQ(all.size(), 50u);
      EXPECT_EQ(count.size(), 50u);
      EXPECT_EQ(all != before, shuffle || pass == 0);
      before = all;
    }
  }
}

TEST_F(Streamed, DatasetsAreMixedAllAlong) {
  add("a.jsonl", 0, 4000);
  add("b.jsonl", 4000, 2000);
  config.shuffle_buffer_size = 2048;
  const Stream s = [&] {
    const BatcherOptions options = batcher_options(config, 3, true, 7);
    return Stream(config, {.base = scratch.folder(), .vocab_size = 6000, .tokenizer = no_tokenizer}, options,
                  5000);
  }();
  int second = 0;
  const auto first_chunk = samples(s, 0, 682);
  for (const auto id : first_chunk) second += id >= 4000;
  EXPECT_GT(second, 300);
  EXPECT_LT(second, 1500);
}

TEST_F(Streamed, ABatchIsAFunctionOfItsIndex) {
  add("a.jsonl", 0, 100);
  for (const bool packing : {false, true}) {
    config.packing = packing;
    const Stream s = stream();
    std::vector<std::vector<std::int32_t>> in_order;
    for (std::int64_t i = 0; i < 40; ++i) in_order.push_back(s.batch(0, i).input_ids);
    for (const std::int64_t i : {39, 38, 0, 17, 3, 39})
      EXPECT_EQ(s.batch(0, i).input_ids, in_order[static_cast<std::size_t>(i)]);
    EXPECT_EQ(stream().batch(0, 33).input_ids, in_order[33]);  // as a resumed run requests it
  }
}

// The files' row groups hold 7 rows, the stream's chunks 16.
TEST_F(Streamed, FilesOfColumnsAreReadAsLinesAre) {
  add("a.jsonl", 0, 50);
  const std::vector<std::int32_t> all = samples(stream(), 0, 57);
  for (const char* file : {"tokens.parquet", "tokens.arrow"}) {
    config.datasets[0].path = source_path("tests/golden/parquet/") + file;
    EXPECT_EQ(samples(stream(), 0, 57), all) << file;
    const std::vector<std::int32_t> resumed = samples(stream(), 23, 57);
    EXPECT_TRUE(std::equal(resumed.rbegin(), resumed.rend(), all.rbegin())) << file;
  }
}

TEST_F(Streamed, WeightsHoldInTheMean) {
  add("a.jsonl", 0, 100, 2.5);
  add("b.jsonl", 200, 100, 0.25);
  const Stream s = stream();
  std::map<bool, int> count;
  std::int64_t i = 0;
  for (int n = 0; n < 2750; ++i)  // ten passes
    for (const auto id : samples(s, i, i + 1)) ++n, ++count[id >= 200];
  EXPECT_NEAR(count[false], 2500, 60);
  EXPECT_NEAR(count[true], 250, 60);
}

TEST_F(Streamed, MistakesAreReportedWhenTheyAreReached) {
  add("a.jsonl", 0, 40);
  std::ofstream(scratch.folder() / "a.jsonl", std::ios::app) << "{\"input_ids\": [5, 7000]}\n";
  const Stream s = stream();
  samples(s, 0, 10);
  EXPECT_EQ(error_of(Exit::input, [&] { samples(s, 10, 20); }),
            "a.jsonl:41: input_ids[1] is 7000; the model's tokens are 0 to 999");
}

TEST_F(Streamed, DataWithoutTargetsAreRefused) {
  add("a.jsonl", 0, 4);
  scratch.write("a.jsonl", "{\"input_ids\": [5, 7], \"labels\": [-100, -100]}\n");
  const Stream s = stream();
  EXPECT_EQ(error_of(Exit::input, [&] { samples(s, 0, 2); }),
            "data.datasets: no tokens to train on in all of the data: a.jsonl:1: every label is -100");
}

}  // namespace
}  // namespace ft
