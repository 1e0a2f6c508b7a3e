// Reads the part of YAML that data sets' cards use: mappings, sequences and scalars in blocks or in brackets.
// All scalars are texts. Anchors, tags and texts of several lines are refused.
#pragma once
#include <string>
#include <string_view>

#include "engine/files/json.h"

namespace ft {

// Returns the value of the mapping's key `key`, or null if it is absent; all else is skipped. `file` and
// `first_line`, the text's first line, are for messages. Throws UserError (input) with the line.
Json read_yaml_key(std::string_view text, std::string_view key, const std::string& file,
                   std::int64_t first_line);

// Returns the settings at the beginning of a card, a page in Markdown: the text between two lines of three
// dashes, which begins on line 2. Empty: there are none.
std::string front_matter(const std::string& card);

}  // namespace ft
