// Reads the footer of a Parquet file (github.com/apache/parquet-format, parquet.thrift): its schema as a
// list, and the places of each row group's columns.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/files/columnar/bytes.h"
#include "data/files/columnar/cell.h"
#include "data/files/columnar/unpack.h"
#include "engine/files/file.h"

namespace ft::columnar {

// Physical types, with parquet.thrift's numbers.
enum class Physical : std::uint8_t {
  boolean = 0,
  int32 = 1,
  int64 = 2,
  int96 = 3,
  real32 = 4,
  real64 = 5,
  bytes = 6,
  fixed_bytes = 7
};

struct StoredType {
  Physical physical = Physical::bytes;
  int length = 0;  // of fixed_bytes

  int width() const;  // bytes of a value; 0 if they differ
};

enum class Repetition : std::uint8_t { required = 0, optional = 1, repeated = 2 };
enum class GroupKind : std::uint8_t { structure, list, map };

struct SchemaElement {
  std::string name;
  Repetition repetition = Repetition::required;
  std::optional<StoredType> type;  // none: a group
  Meaning meaning;
  GroupKind group = GroupKind::structure;
  std::int32_t children = 0;
};

struct ColumnChunk {
  StoredType type;
  Codec codec = Codec::none;
  std::int64_t values = 0;  // with nulls
  std::int64_t offset = 0;  // file offset of its first page
  bool encrypted = false, in_other_file = false;
};

struct RowGroup {
  std::vector<ColumnChunk> columns;  // by leaf of the schema
  std::int64_t rows = 0;
};

struct ParquetFooter {
  std::vector<SchemaElement> schema;  // each group before its children; the first is the row
  std::vector<RowGroup> groups;
  std::int64_t rows = 0;
  std::int64_t offset = 0;  // the footer's offset; pages lie before it
};

// Reads the footer. Throws Damage if it is not valid.
ParquetFooter read_footer(const InputFile& file);

}  // namespace ft::columnar
