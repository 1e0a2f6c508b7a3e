// Patterns of paths as the cards of data sets have them: *, ? and [a-z] within a name, ** for any folders.
#pragma once
#include <string_view>

namespace ft {

// Both with "/" between names. In time that is a product of their lengths.
bool path_matches(std::string_view pattern, std::string_view path);

}  // namespace ft
