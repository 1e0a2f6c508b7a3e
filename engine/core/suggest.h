// "Do you mean ...?": the known name most similar to an unknown one.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace ft {

// Counts the inserted, missing, changed and swapped letters between two words.
int typing_errors(std::string_view a, std::string_view b);

// Returns the most similar name of `known`; empty if none is similar enough.
std::string nearest(std::string_view name, const std::vector<std::string>& known);

}  // namespace ft
