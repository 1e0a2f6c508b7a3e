// Reads the fields that a format wants out of one row, an object in JSON, without building a tree: a row of a
// million token ids is read into its list at once.
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

  std::string name;  // in the file
  Kind kind = Kind::text;
  bool required = true;      // null counts as absent
  bool may_be_list = false;  // instead of a text: is_list says so, and what is in it is not read
  bool found = false, is_list = false;
  std::string text{};
  std::vector<std::int64_t> integers{};
};

// Fills `fields`. Throws a UserError that names the line, and the column of what is not JSON, when the text
// is no object, a field has another type or is given twice, or a required one is absent.
void read_fields(std::string_view row, const Place& at, std::span<Field> fields);

// The whole row as a tree, for formats with lists of objects. Throws as read_fields does.
Json read_row(std::string_view row, const Place& at, NonFinite non_finite = NonFinite::kept);

// The names in a row, in its order.
std::vector<std::string> row_names(std::string_view row, const Place& at);

}  // namespace ft
