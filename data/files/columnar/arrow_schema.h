// The columns of an Arrow stream (github.com/apache/arrow, format/Schema.fbs), each with its values' type.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/files/columnar/cell.h"
#include "data/files/columnar/flatbuffer.h"

namespace ft::columnar {

struct ArrowField {
  // How values lie in buffers. views: texts of up to 12 bytes lie among their lengths.
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
  int width = 0;          // bytes of a fixed value; of the offsets of texts and lists
  std::int64_t size = 0;  // items of each fixed_list
  std::vector<ArrowField> children{};
  std::optional<std::int64_t> dictionary{};  // its id: the column holds indices of `index_width` bytes
  int index_width = 4;
  bool index_signed = true;
};

// `schema`: a message's Schema. Throws Damage.
std::vector<ArrowField> read_arrow_schema(const FlatTable& schema);

// The buffers of a column that is no dictionary's, without its children's; those of texts among views are
// counted elsewhere. `unions_valid`: unions say which values are null, as in the older format.
int buffers_of(const ArrowField& field, bool unions_valid);

}  // namespace ft::columnar
