// Prepared data: the same samples as in the files, reused only while nothing that decides them has changed.
#include "data/batches/prepared.h"

#include <gtest/gtest.h>

#include "engine/files/file.h"
#include "tests/data/scratch.h"

namespace ft {
namespace {

using test::error_of;
using test::Scratch;

class Prepared : public testing::Test {
 protected:
  Prepared() {
    scratch.write("a.jsonl", R"({"input_ids": [1, 2, 3], "labels": [-100, 2, 3]}
{"input_ids": [4, 5, 6, 7, 8, 9]}
)");
    scratch.write("b.jsonl", "{\"input_ids\": [9, 8]}\n");
    for (const char* name : {"a.jsonl", "b.jsonl"}) {
      config.datasets.emplace_back();
      config.datasets.back().path = name;
    }
    config.max_seq_length = 5;
    config.dataset_prepared_path = "prepared/here";
  }
  LoadedData load() {
    return load_data(config, 1,
                     {.base = scratch.folder(),
                      .vocab_size = 64,
                      .tokenizer = no_tokenizer,
                      .tokenizer_path = scratch.folder()});
  }
  // Returns true if the data was read from the prepared folder.
  bool reused() {
    const std::string note = load().notes.at(0);
    EXPECT_NE(note.find("prepared/here"), std::string::npos);
    return note.starts_with("data.datasets: prepared tokens read from ");
  }
  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> all;
    for (const auto& e : std::filesystem::directory_iterator(scratch.folder() / "prepared/here"))
      all.push_back(e.path());
    return all;
  }
  static const Tokenizer& no_tokenizer() { throw UserError(Exit::input, "no tokenizer"); }

  const Scratch scratch;
  DataConfig config;
};

TEST_F(Prepared, EqualsTheDataAsRead) {
  const LoadedData read = load(), prepared = load();
  ASSERT_EQ(prepared.train.size(), 3);
  for (std::int64_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(std::ranges::equal(read.train[i].input_ids, prepared.train[i].input_ids));
    EXPECT_TRUE(std::ranges::equal(read.train[i].labels, prepared.train[i].labels));
    EXPECT_EQ(read.train.source(i), prepared.train.source(i));
  }
  EXPECT_EQ(prepared.train.source(2), "b.jsonl:1");
  EXPECT_EQ(prepared.train_counts.rows, 3);
  EXPECT_EQ(prepared.train_counts.truncated, 1);
  EXPECT_EQ(prepared.notes.back(), read.notes.back());  // 1 of 3 samples was truncated
}

TEST_F(Prepared, IsMadeAnewWhenAnythingChanged) {
  EXPECT_FALSE(reused());
  EXPECT_TRUE(reused());
  config.shuffle = false;  // decides nothing about the samples
  config.datasets[0].weight = 2;
  EXPECT_TRUE(reused());
  config.max_seq_length = 4;
  EXPECT_FALSE(reused());
  config.datasets[1].max_samples = 1;
  EXPECT_FALSE(reused());
  scratch.write("b.jsonl", "{\"input_ids\": [9, 7]}\n");  // of the same size
  EXPECT_FALSE(reused());
  scratch.write("tokenizer.json", "{}");
  EXPECT_FALSE(reused());
  EXPECT_TRUE(reused());
}

TEST_F(Prepared, DamageIsNoticed) {
  EXPECT_FALSE(reused());
  const auto all = files();
  ASSERT_EQ(all.size(), 1u);
  std::string whole = read_file(all[0].string(), 1 << 20);
  for (const std::size_t at : {whole.size() / 2, whole.size() - 3, std::size_t{3}}) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x70);
    std::ofstream(all[0], std::ios::binary) << damaged;
    const auto again = load();  // reused or read again, the samples are right
    for (std::int64_t i = 0; i < again.train.size(); ++i)
      for (const auto id : again.train[i].input_ids) EXPECT_LT(id, 64);
  }
  std::ofstream(all[0], std::ios::binary) << whole.substr(0, whole.size() - 4);
  EXPECT_FALSE(reused());
  EXPECT_TRUE(reused());
}

TEST_F(Prepared, AFolderThatCannotBeMadeIsReported) {
  scratch.write("prepared", "a file");
  const std::string error = error_of(Exit::storage, [&] { load(); });
  EXPECT_TRUE(error.starts_with("data.dataset_prepared_path: ")) << error;
}

}  // namespace
}  // namespace ft
