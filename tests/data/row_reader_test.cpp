// Rows of .jsonl and .json files with their line numbers, whatever the line ends and blocks.
#include "data/row_reader.h"

#include <gtest/gtest.h>

#include "tests/data/scratch.h"

namespace ft {
namespace {

using test::error_of;
using test::Scratch;

std::vector<std::pair<std::int64_t, std::string>> rows_of(const Scratch& scratch, const std::string& name,
                                                          const std::string& text) {
  const auto reader = open_rows({scratch.write(name, text), name});
  std::vector<std::pair<std::int64_t, std::string>> rows;
  for (Row row; reader->next(row);) rows.emplace_back(row.line, row.text);
  EXPECT_EQ(reader->bytes_read(), static_cast<std::int64_t>(text.size()));
  return rows;
}

using Rows = std::vector<std::pair<std::int64_t, std::string>>;

TEST(RowReader, Lines) {
  const Scratch s;
  EXPECT_EQ(rows_of(s, "a.jsonl", "\xEF\xBB\xBF{\"a\":1}\r\n\r\n \t\n{\"b\":2}"),
            (Rows{{1, "{\"a\":1}"}, {4, "{\"b\":2}"}}));
  EXPECT_EQ(rows_of(s, "b.json", "{}\n{}\n"), (Rows{{1, "{}"}, {2, "{}"}}));
  EXPECT_EQ(rows_of(s, "c.jsonl", ""), Rows{});
  EXPECT_EQ(rows_of(s, "d.jsonl", "\n\n"), Rows{});
}

TEST(RowReader, Array) {
  const Scratch s;
  EXPECT_EQ(rows_of(s, "a.json", "\xEF\xBB\xBF \n[\n {\"a\": \"],\\\"\"},\n\n {\"b\":\n [1, 2]} ,7 ] \n"),
            (Rows{{3, "{\"a\": \"],\\\"\"}"}, {5, "{\"b\":\n [1, 2]}"}, {6, "7"}}));
  EXPECT_EQ(rows_of(s, "b.json", "[]"), Rows{});
  EXPECT_EQ(rows_of(s, "c.json", "[ ]\n"), Rows{});
}

TEST(RowReader, ArrayErrors) {
  const Scratch s;
  const auto error = [&](const std::string& text) {
    return error_of(Exit::input, [&] { rows_of(s, "a.json", text); });
  };
  EXPECT_EQ(error("[1,\n2"), "a.json:2: not JSON: the array is not closed");
  EXPECT_EQ(error("[1,,2]"), "a.json:1: not JSON: a value is missing in the array");
  EXPECT_EQ(error("[1,]"), "a.json:1: not JSON: a value is missing in the array");
  EXPECT_EQ(error("[\"a"), "a.json:1: not JSON: the array is not closed");
  EXPECT_EQ(error("[1]\n\nx"), "a.json:3: not JSON: something follows the end of the array");
}

TEST(RowReader, LinesLongerThanABlock) {
  const Scratch s;
  const std::string big(3'000'000, 'x');
  EXPECT_EQ(rows_of(s, "a.jsonl", big + "\r\n" + big + "\nz"), (Rows{{1, big}, {2, big}, {3, "z"}}));
}

TEST(RowReader, TooLongARow) {
  const Scratch s;
  s.write("a.jsonl", "{}\n");
  std::filesystem::resize_file(s.folder() / "a.jsonl", kLongestRow + 100);  // zeros
  const auto reader = open_rows({s.folder() / "a.jsonl", "a.jsonl"});
  Row row;
  EXPECT_TRUE(reader->next(row));
  EXPECT_EQ(error_of(Exit::input, [&] { reader->next(row); }), "a.jsonl:2: a row of more than 64 MiB");
}

}  // namespace
}  // namespace ft
