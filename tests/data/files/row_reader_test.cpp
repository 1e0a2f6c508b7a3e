// Rows of .jsonl and .json files with their line numbers, for all line ends and block boundaries.
#include "data/files/row_reader.h"

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
  EXPECT_EQ(error("[1]\n\nx"), "a.json:3: not JSON: text after the end of the array");
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

// Two gzip members one after another, and one zstd frame, of these lines.
const std::string kTwoLines = "{\"a\": 1}\n{\"b\": 2}\n";
const std::string kGzip = std::string(
                              "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xab\x56\x4a\x54\xb2\x52"
                              "\x30\xac\xe5\x02\x00\xfa\xa1\x47\x5c\x09\x00\x00\x00",
                              29) +
                          std::string(
                              "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xab\x56\x4a\x52\xb2\x52"
                              "\x30\xaa\xe5\x02\x00\x3e\x05\xe9\x6f\x09\x00\x00\x00",
                              29);
const std::string kZstd(
    "\x28\xb5\x2f\xfd\x20\x12\x91\x00\x00\x7b\x22\x61\x22\x3a\x20\x31"
    "\x7d\x0a\x7b\x22\x62\x22\x3a\x20\x32\x7d\x0a",
    27);

TEST(RowReader, PackedFiles) {
  const Scratch s;
  const Rows rows{{1, "{\"a\": 1}"}, {2, "{\"b\": 2}"}};
  EXPECT_EQ(rows_of(s, "a.jsonl.gz", kGzip), rows);
  EXPECT_EQ(rows_of(s, "a.jsonl.zst", kZstd), rows);
  EXPECT_EQ(rows_of(s, "b.jsonl.zst", kZstd + kZstd).size(), 4U);
  const auto error = [&](const std::string& name, const std::string& bytes) {
    return error_of(Exit::input, [&] { rows_of(s, name, bytes); });
  };
  EXPECT_EQ(error("c.jsonl.gz", kGzip.substr(0, kGzip.size() - 5)),
            "c.jsonl.gz: cut short: its gzip data does not end");
  EXPECT_EQ(error("d.jsonl.gz", ""), "d.jsonl.gz: cut short: its gzip data does not end");
  EXPECT_EQ(error("e.jsonl.gz", "plain text"), "e.jsonl.gz: damaged gzip data: incorrect header check");
  EXPECT_EQ(error("f.jsonl.zst", kZstd.substr(0, kZstd.size() - 5)),
            "f.jsonl.zst: cut short: its zstd data does not end");
  EXPECT_EQ(error("g.jsonl.zst", "plain text"), "g.jsonl.zst: damaged zstd data: Unknown frame descriptor");
}

TEST(RowReader, Tables) {
  const Scratch s;
  EXPECT_EQ(rows_of(s, "a.csv",
                    "\xEF\xBB\xBF"
                    "a,b\r\n1,\"x, \"\"y\"\"\nz\"\r\n\r\n\\,\t\n"),
            (Rows{{2, R"({"a": "1", "b": "x, \"y\"\u000az"})"}, {5, R"({"a": "\\", "b": "\u0009"})"}}));
  EXPECT_EQ(rows_of(s, "b.tsv", "a\tb\n1\t2"), (Rows{{2, R"({"a": "1", "b": "2"})"}}));
  EXPECT_EQ(rows_of(s, "c.csv", ""), Rows{});
  EXPECT_EQ(rows_of(s, "d.csv", "a,b\n"), Rows{});
  EXPECT_EQ(rows_of(s, "e.csv", "a,b\n,\n"), (Rows{{2, R"({"a": "", "b": ""})"}}));
  const auto error = [&](const std::string& text) {
    return error_of(Exit::input, [&] { rows_of(s, "t.csv", text); });
  };
  EXPECT_EQ(
      error("a,b\n1,2\n1\n"),
      "t.csv:3: 1 field; the first row names 2 columns. A field that holds a separator, a quote or a line "
      "feed must be in quotes");
  EXPECT_EQ(error("a,b\n1,2\n\"1,2\n3,4\n"), "t.csv:3: a quote opened in this row is never closed");
  EXPECT_EQ(error("a,b\n\"1\"x,2\n"),
            "t.csv:2: text after a closing quote; write a quote inside quotes twice");
  EXPECT_EQ(error("a,a\n"), "t.csv:1: two columns are called a");
  EXPECT_EQ(error("a,,b\n"), "t.csv:1: column 2 has no name; the first row names the columns");
  EXPECT_EQ(error("a,b\n1,\xFF\n"), "t.csv:2: column 2 is not UTF-8");
}

TEST(RowReader, EveryLineEnd) {
  const Scratch s;
  const Rows table{{2, R"({"a": "1", "b": "2"})"}, {4, R"({"a": "x\u000dy", "b": "\u000d\u000az"})"}};
  for (const std::string end : {"\n", "\r\n", "\r"}) {
    EXPECT_EQ(rows_of(s, "a.csv", "a,b" + end + "1,2" + end + end + "\"x\ry\",\"\r\nz\"" + end), table);
    EXPECT_EQ(rows_of(s, "a.tsv", "a\tb" + end + "1\t2" + end), (Rows{table[0]}));
    EXPECT_EQ(rows_of(s, "a.jsonl", "{\"a\": 1}" + end + end + "{\"b\": 2}" + end),
              (Rows{{1, "{\"a\": 1}"}, {3, "{\"b\": 2}"}}));
    EXPECT_EQ(rows_of(s, "a.txt", "one" + end + "two"),
              (Rows{{1, R"({"text": "one"})"}, {2, R"({"text": "two"})"}}));
    EXPECT_EQ(error_of(Exit::input, [&] { rows_of(s, "t.csv", "a,b" + end + "1,2" + end + "1" + end); })
                  .substr(0, 8),
              "t.csv:3:");
  }
}

TEST(RowReader, EndingsInUpperCase) {
  const Scratch s;
  EXPECT_EQ(rows_of(s, "A.CSV", "a\n1\n").size(), 1U);
  EXPECT_EQ(rows_of(s, "A.Tsv", "a\tb\n1\t2\n").size(), 1U);
  EXPECT_EQ(rows_of(s, "A.JSON", "[{}, {}]").size(), 2U);
  EXPECT_EQ(rows_of(s, "A.JSONL.GZ", kGzip).size(), 2U);
  EXPECT_EQ(rows_of(s, "A.JsonL.Zst", kZstd).size(), 2U);
  EXPECT_EQ(kind_of_file("a/B.CSV.GZ"), ".csv");
  EXPECT_TRUE(is_data_file("B.Parquet"));
  EXPECT_FALSE(is_data_file("B.MD"));
}

TEST(RowReader, LinesOfText) {
  const Scratch s;
  EXPECT_EQ(rows_of(s, "a.txt", "one \"two\"\r\n\n three\n"),
            (Rows{{1, R"({"text": "one \"two\""})"}, {3, R"({"text": " three"})"}}));
  EXPECT_EQ(error_of(Exit::input, [&] { rows_of(s, "b.txt", "a\n\xC3\n"); }), "b.txt:2: not UTF-8");
}

}  // namespace
}  // namespace ft
