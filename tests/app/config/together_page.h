// The page docs/together.md, made from the table of together.h. A test compares both.
#pragma once
#include <string>
#include <vector>

namespace ft {

constexpr int kRanks = 8;  // of the runs on the page

// Returns the settings of Feature::set, one by one.
std::vector<std::string> settings_of(const std::string& set);

std::string together_page();

}  // namespace ft
