// Reads the fields that a format needs from one row, a JSON object, without building a tree. A row of a
// million token ids is read directly into its list.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/files/row_reader.h"
#include "engine/files/json.h"

namespace ft {

struct Field {
  enum class Kind { text, integers };

  std::string name;  // the column's name in the file
  Kind kind = Kind::text;
  bool required = true;      // null counts as absent
  bool may_be_list = false;  // a text may be a list: then is_list is set, and the list is not read
  bool found = false, is_list = false;
  std::string text{};
  std::vector<std::int64_t> integers{};
};

// Fills `fields`. Throws UserError (input), which names the line and, for broken JSON, the column, if the
// text is not an object, a field has another type or is given twice, or a required field is absent.
void read_fields(std::string_view row, const Place& at, std::span<Field> fields);

// Reads the complete row as a tree, for formats with lists of objects. Throws as read_fields does.
Json read_row(std::string_view row, const Place& at, NonFinite non_finite = NonFinite::kept);

// Returns the names in a row, in its order.
std::vector<std::string> row_names(std::string_view row, const Place& at);

}  // namespace ft
