// Reads one column of a row group, a page at a time: its values in order, each with its levels.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "data/files/columnar/hybrid.h"
#include "data/files/columnar/parquet_schema.h"
#include "data/files/columnar/parquet_values.h"

namespace ft::columnar {

class ParquetColumn {
 public:
  // Pages lie before `end` in the file; `held` counts their memory. The arguments must outlive the column.
  // Throws Damage, as all functions here do.
  ParquetColumn(const InputFile& file, const Node& leaf, const ColumnChunk& chunk, std::int64_t end,
                Held& held);

  // State of the current value; after the last value both levels are 0.
  bool at_end() const { return ended_; }
  int repetition() const { return repetition_; }
  int definition() const { return definition_; }
  const Value& value() const { return value_; }  // if the definition level is the largest
  void advance();

  const std::string& name() const { return leaf_.name; }
  std::int64_t page() const { return page_; }  // file offset of the current page

 private:
  struct Header;
  Header read_header();
  void next_page();
  void open_dictionary(const Header& header, const std::string& packed);
  void open_first_version(const Header& header, const std::string& packed);
  void open_second_version(const Header& header, const std::string& packed);

  const InputFile& file_;
  const Node& leaf_;
  Codec codec_;
  std::int64_t at_, end_;            // in the file
  std::int64_t left_, in_page_ = 0;  // values left in the chunk, and in the page
  std::int64_t page_ = 0, page_bytes_ = 0;
  Held& held_;
  std::string bytes_, unpacked_;  // of the page
  Hybrid repetitions_, definitions_;
  std::unique_ptr<Dictionary> dictionary_;
  std::unique_ptr<Values> values_;
  bool ended_ = false;
  int repetition_ = 0, definition_ = 0;
  Value value_;
};

}  // namespace ft::columnar
