// The schema of a Parquet file as a tree, with the levels that say where a value stands
// (github.com/apache/parquet-format, "Nested Encoding").
//
// A column stores for each value how many of the optional and repeated things round it are there (its
// definition level), and which of the lists round it goes on (its repetition level; 0: a row begins).
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "data/files/columnar/parquet_footer.h"

namespace ft::columnar {

struct Node {
  enum class Kind : std::uint8_t { leaf, structure, list, map };

  std::string name;
  Kind kind = Kind::leaf;
  bool optional = false;
  int definition = 0;       // from this level on it is there, else null
  int item_definition = 0;  // lists and maps: from this level on they have an item
  int repetition = 0;       // of leaves: the largest; of lists and maps: that of a further item
  StoredType type{};        // leaves
  Meaning meaning{};
  std::size_t first = 0, end = 0;  // its leaves, as row groups list their columns
  std::vector<Node> children{};    // of a list its item; of a map its key and value
};

// The row. Throws Damage.
Node make_tree(const std::vector<SchemaElement>& schema);

}  // namespace ft::columnar
