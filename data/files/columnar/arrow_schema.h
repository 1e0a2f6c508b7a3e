// Reads the columns of an Arrow stream and their types (github.com/apache/arrow, format/Schema.fbs).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/files/columnar/cell.h"
#include "data/files/columnar/flatbuffer.h"

namespace ft::columnar {

struct ArrowField {
  // Arrangement of values in buffers. views: texts of up to 12 bytes are stored with their lengths.
  enum class Layout : std::uint8_t {
    none,
    bits,
    fixed,
    texts,
    views,
    list,
    list_view,
    fixed_list,
    structure,
    map,
    sparse_union,
    dense_union,
    run_ends
  };

  std::string name;
  Layout layout = Layout::none;
  Meaning meaning{};
  int width = 0;          // bytes of a fixed value, or of the offsets of texts and lists
  std::int64_t size = 0;  // items of each fixed_list
  std::vector<ArrowField> children{};
  std::optional<std::int64_t> dictionary{};  // id; the column holds indices of `index_width` bytes
  int index_width = 4;
  bool index_signed = true;
};

// Reads a message's Schema. Throws Damage.
std::vector<ArrowField> read_arrow_schema(const FlatTable& schema);

// Returns the number of buffers of a column without a dictionary. Buffers of its children are not counted,
// nor the text buffers of views, whose number is in the batch. `unions_valid`: unions have a validity buffer,
// as in the older format.
int buffers_of(const ArrowField& field, bool unions_valid);

}  // namespace ft::columnar
