// The environment variables of this process. Nothing else reads or changes them (.ci/budget.py).
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace ft {

std::string variable(const char* name);  // empty where there is none
void set_variable(const char* name, const std::string& value);
std::vector<std::pair<std::string, std::string>> variables();  // all of them: name, value

}  // namespace ft
