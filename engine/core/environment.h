// The environment variables of this process. Nothing else reads or changes them (.ci/budget.py).
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace ft {

std::string variable(const char* name);  // empty if it is not set
void set_variable(const char* name, const std::string& value);
std::vector<std::pair<std::string, std::string>> variables();  // name and value of each

}  // namespace ft
