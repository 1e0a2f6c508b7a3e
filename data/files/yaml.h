// The part of YAML that the cards of data sets are written in: mappings, sequences and scalars in blocks or
// in brackets. Scalars are texts, whatever they look like. Anchors, tags and texts of several lines are
// refused.
#pragma once
#include <string>
#include <string_view>

#include "engine/files/json.h"

namespace ft {

// The value of the mapping's key `key`, or null where it is not there; all else is passed over. `file` is for
// messages, `first_line` that of the text. Throws a UserError (exit 3) that names the line.
Json read_yaml_key(std::string_view text, std::string_view key, const std::string& file,
                   std::int64_t first_line);

}  // namespace ft
