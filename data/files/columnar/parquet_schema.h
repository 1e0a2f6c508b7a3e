// Arranges the schema of a Parquet file as a tree, with the levels that tell the place of a value
// (github.com/apache/parquet-format, "Nested Encoding").
//
// A column stores two levels for each value. The definition level counts the optional and repeated elements
// around the value that are present. The repetition level names the list around it that gets a further item;
// 0: a row begins.
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
  int definition = 0;       // level from which it is present, else null
  int item_definition = 0;  // lists and maps: level from which they have an item
  int repetition = 0;       // leaves: the largest; lists and maps: the level of a further item
  StoredType type{};        // leaves
  Meaning meaning{};
  std::size_t first = 0, end = 0;  // range of its leaves, in the order of row groups' columns
  std::vector<Node> children{};    // list: its item; map: its key and value
};

// Returns the tree of a row. Throws Damage.
Node make_tree(const std::vector<SchemaElement>& schema);

}  // namespace ft::columnar
