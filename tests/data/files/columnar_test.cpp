// Rows of Parquet and Arrow files as pyarrow and datasets write them (tests/golden/make_parquet.py), and
// damaged files.
#include "data/files/columnar/rows.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "data/files/columnar/cell.h"
#include "data/files/columnar/delta.h"
#include "data/files/columnar/hybrid.h"
#include "data/files/columnar/summary.h"
#include "data/files/columnar/unpack.h"
#include "engine/files/file.h"
#include "engine/files/json.h"
#include "tests/data/scratch.h"
#include "tests/support/source.h"

namespace ft {
namespace {

using columnar::Damage;
using test::error_of;
using test::Scratch;
namespace fs = std::filesystem;

const fs::path kGolden = source_path("tests/golden/parquet");

std::vector<Json> rows_of(const fs::path& file, std::span<const std::string> only = {}) {
  const auto reader = open_rows({file, "t"});
  if (!only.empty()) reader->read_only(only);
  std::vector<Json> rows;
  for (Row row; reader->next(row);) {
    EXPECT_EQ(row.line, std::ssize(rows) + 1);
    rows.push_back(parse_json(row.text, {file.string()}));
  }
  EXPECT_EQ(reader->bytes_read(), static_cast<std::int64_t>(fs::file_size(file)));
  return rows;
}

std::vector<fs::path> golden_files() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(kGolden))
    if (const auto kind = entry.path().extension(); kind == ".parquet" || kind == ".arrow")
      files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

// Removes null members of structs: a file's structs have the keys of all rows. Columns and maps keep them.
Json without_null_keys(const Json& value, bool row = true) {
  if (!value.is_structured()) return value;
  Json out = value.is_object() ? Json::object() : Json::array();
  for (const auto& [key, inner] : value.items())
    if (value.is_array())
      out.push_back(without_null_keys(inner, false));
    else if (row || !inner.is_null())
      out[key] = without_null_keys(inner, false);
  return out;
}

class Columnar : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(Columnar, RowsAreThoseThatWereWritten) {
  const auto& [name, expected] = GetParam();
  const std::vector<Json> got = rows_of(kGolden / name), want = rows_of(kGolden / expected);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_GE(got[i].size() + 1, want[i].size());  // one column may be left out
    const Json expected_row = without_null_keys(want[i]);
    for (const auto& [column, value] : got[i].items())
      EXPECT_EQ(value, column == "map" ? want[i][column] : expected_row[column]) << i << " " << column;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Files, Columnar,
    testing::Values(
        std::pair{"values-default.parquet", "values.jsonl"},
        std::pair{"values-plain-v2.parquet", "values.jsonl"}, std::pair{"values-old.parquet", "values.jsonl"},
        std::pair{"values-stream.arrow", "values.jsonl"}, std::pair{"values-file.arrow", "values.jsonl"},
        std::pair{"values-views.arrow", "values.jsonl"}, std::pair{"many-snappy.parquet", "many.jsonl"},
        std::pair{"many-gzip.parquet", "many.jsonl"}, std::pair{"many-brotli.parquet", "many.jsonl"},
        std::pair{"many-lz4.parquet", "many.jsonl"}, std::pair{"many-fallback.parquet", "many.jsonl"},
        std::pair{"many-deltas.parquet", "many.jsonl"}, std::pair{"many-split.parquet", "many.jsonl"},
        std::pair{"many-polars.arrow", "many.jsonl"},
        std::pair{"many-dictionary.arrow", "many-dictionary.jsonl"}),
    [](const auto& tested) {
      std::string name = tested.param.first;
      std::replace_if(
          name.begin(), name.end(), [](char c) { return c == '-' || c == '.'; }, '_');
      return name;
    });

TEST(ColumnarRows, OnlyTheColumnsAskedForAreRead) {
  const std::vector<std::string> only{"word", "nothing", "n"};
  for (const char* name : {"many-snappy.parquet", "many-dictionary.arrow"}) {
    const std::vector<Json> rows = rows_of(kGolden / name, only);
    ASSERT_EQ(rows.size(), 48);
    EXPECT_EQ(rows[1].dump(), "{\"word\":\"green\",\"n\":506952113}");
  }
}

TEST(ColumnarRows, FilesDescribeTheirColumns) {
  const auto text = [](const fs::path& file) {
    const columnar::Summary s = columnar::summarize({kGolden / file, "t"});
    std::string all = str(s.rows, " rows in ", s.parts);
    for (const auto& column : s.columns) all += str("; ", column.name, " ", column.type);
    return all;
  };
  const std::string columns = "; prompt string; word string; ids list<int64>; n int32; x float64; ok bool";
  EXPECT_EQ(text("many-snappy.parquet"), "48 rows in 3" + columns);
  EXPECT_EQ(text("many-dictionary.arrow"), "48 rows in 2" + columns);
  const std::string values =
      "; text string; large string; bytes string; fixed string; i8 int32; u16 uint32; u32 uint32; i64 int64; "
      "u64 uint64; f16 float16; f32 float32; f64 float64; yes bool; day date; time time; ms timestamp; "
      "us timestamp; ns timestamp; small decimal; price decimal; none int32; ids list<int32>; "
      "deep list<list<string>>; "
      "messages list<struct<role: string, content: string, calls: list<struct<name: string>>>>; "
      "pair struct<a: int64, b: struct<c: string>>; map map<string, int32>; numbers map<int32, string>; "
      "tools json";
  EXPECT_EQ(text("values-default.parquet"), "5 rows in 1" + values);
  EXPECT_EQ(error_of(Exit::input, [&] { text("values.jsonl"); }),
            "t: metadata that is longer than the file or 64 MiB");
}

// A damaged file gives a row less, or an error that names the file.
TEST(ColumnarRows, DamagedFilesAreRefused) {
  const Scratch scratch;
  std::mt19937 random(7);
  const auto below = [&](std::size_t n) { return random() % n; };
  int refused = 0;
  for (const fs::path& file : golden_files()) {
    const std::string whole = read_file(file.string(), 1 << 20);
    for (int i = 0; i < 150; ++i) {
      std::string bytes = whole;
      for (std::size_t k = below(4) + 1; k > 0; --k) {
        const std::size_t at = i % 2 ? below(bytes.size()) : bytes.size() - 1 - below(bytes.size() / 3);
        bytes[at] = static_cast<char>(i % 3 == 0 ? bytes[at] ^ (1 << below(8)) : below(256));
      }
      if (i % 10 == 9) bytes.resize(below(bytes.size()));
      const fs::path damaged = scratch.write("d" + file.extension().string(), bytes);
      try {
        const auto reader = open_rows({damaged, "damaged"});
        for (Row row; reader->next(row);) {
        }
      } catch (const UserError& e) {
        ++refused;
        EXPECT_EQ(e.code, Exit::input);
        EXPECT_NE(std::string(e.what()).find("d"), std::string::npos);
      }
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(ColumnarRows, CutFilesAreRefused) {
  const Scratch scratch;
  for (const char* name : {"values-default.parquet", "values-file.arrow"}) {
    const std::string whole = read_file((kGolden / name).string(), 1 << 20);
    for (std::size_t size = 0; size < whole.size(); size += 97) {
      const fs::path cut = scratch.write("c" + fs::path(name).extension().string(), whole.substr(0, size));
      error_of(Exit::input, [&] {
        const auto reader = open_rows({cut, "cut"});
        for (Row row; reader->next(row);) {
        }
      });
    }
  }
}

TEST(ColumnarRows, ErrorsSayWhere) {
  const Scratch scratch;
  std::string bytes = read_file((kGolden / "many-split.parquet").string(), 1 << 20);
  bytes[bytes.find("green")] = '\xFF';
  const fs::path file = scratch.write("t.parquet", bytes);
  const std::string error = error_of(Exit::input, [&] { rows_of(file); });
  EXPECT_EQ(error.substr(0, error.find(" byte")), "t:2: column word, page at");
  EXPECT_EQ(error.substr(error.rfind(": ")), ": a text that is not UTF-8");
}

TEST(ColumnarParts, Hybrid) {
  // the example in the format's specification
  columnar::Hybrid mixed(std::string_view("\x06\x02\x03\x88\xC6\xFA", 6), 3);
  std::string got;
  for (int i = 0; i < 11; ++i) got += str(mixed.next());
  EXPECT_EQ(got, "22201234567");
  EXPECT_THROW(mixed.next(), Damage);
  columnar::Hybrid nothing(std::string_view("\xFE\xFF\xFF\xFF\x0F", 5), 0);
  EXPECT_EQ(nothing.next(), 0U);
  EXPECT_THROW(columnar::Hybrid(std::string_view("\x02\x07", 2), 2).next(), Damage);
}

TEST(ColumnarParts, DeltasWrapAroundAndReturnTheRest) {
  // A block of 128 in 4 miniblocks, with 3 values: INT64_MIN, then two steps of -1.
  const char block[] = "\x80\x01\x04\x03\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01\x01\x00\x00\x00\x00rest";
  columnar::DeltaIntegers deltas(std::string_view(block, sizeof block - 1));
  EXPECT_EQ(deltas.behind(), "rest");
  EXPECT_EQ(deltas.next(), INT64_MIN);
  EXPECT_EQ(deltas.next(), INT64_MAX);
  EXPECT_EQ(deltas.next(), INT64_MAX - 1);
  EXPECT_EQ(deltas.behind(), "rest");
  EXPECT_THROW(deltas.next(), Damage);
}

TEST(ColumnarParts, TheFirstAndLastNanosecond) {
  const columnar::Meaning ns{.kind = columnar::Meaning::Kind::timestamp, .scale = 9};
  std::string first, last;
  columnar::put(ns, {.integer = INT64_MIN}, first);
  columnar::put(ns, {.integer = INT64_MAX}, last);
  EXPECT_EQ(first, "\"1677-09-21 00:12:43.145224192\"");
  EXPECT_EQ(last, "\"2262-04-11 23:47:16.854775807\"");
}

TEST(ColumnarParts, HeldBytesHaveABound) {
  columnar::Held held;
  held.add(std::int64_t{2} << 30);
  EXPECT_THROW(held.add(1), Damage);
  held.add(-2);
  EXPECT_NO_THROW(held.add(1));
}

TEST(ColumnarParts, Unpacking) {
  using columnar::Codec;
  const std::string_view block("\x50hello", 6), framed("\0\0\0\x05\0\0\0\x06\x50hello", 14);
  EXPECT_EQ(columnar::unpack(Codec::lz4_raw, block, 5), "hello");
  EXPECT_EQ(columnar::unpack(Codec::lz4_hadoop, framed, 5), "hello");
  EXPECT_EQ(columnar::unpack(Codec::lz4_hadoop, block, 5), "hello");
  for (const Codec codec : {Codec::none, Codec::snappy, Codec::gzip, Codec::lzo, Codec::brotli, Codec::zstd,
                            Codec::lz4_raw, Codec::lz4_hadoop, Codec::lz4_frame})
    for (const std::int64_t size :
         {std::int64_t{-1}, std::int64_t{4}, std::int64_t{7}, std::int64_t{1} << 40})
      EXPECT_THROW(columnar::unpack(codec, block, size), Damage) << static_cast<int>(codec) << " " << size;
}

}  // namespace
}  // namespace ft
