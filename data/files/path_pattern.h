// Matches paths with the patterns of data sets' cards: *, ? and [a-z] within a name, ** for any folders.
#pragma once
#include <string_view>

namespace ft {

// Both have "/" between names. Takes time proportional to the product of their lengths.
bool path_matches(std::string_view pattern, std::string_view path);

// Matches a text with *, ? and [a-z]; * also matches "/".
bool name_matches(std::string_view pattern, std::string_view name);

}  // namespace ft
