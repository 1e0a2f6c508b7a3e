// The page docs/import.md, made from the tables of verdicts. A test compares both.
#pragma once
#include <string>

namespace ft {

std::string import_page();

}  // namespace ft
