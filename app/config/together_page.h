// The page docs/together.md, made from the table of together.h. A test compares both.
#pragma once
#include <string>

namespace ft {

std::string together_page();

}  // namespace ft
