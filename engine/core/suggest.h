// "Do you mean ...?": the known name nearest to one that is not known.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace ft {

// Inserted, left out, changed and swapped letters between two words.
int typing_errors(std::string_view a, std::string_view b);

// The nearest of `known`; empty when none is near enough to be meant.
std::string nearest(std::string_view name, const std::vector<std::string>& known);

}  // namespace ft
