// Splits texts into lists, as Python's methods do.
#pragma once
#include "data/chat/jinja/machine.h"

namespace ft::jinja {

Value split(Machine& m, const std::string& text, const Arguments& given, bool from_right);
Value split_lines(Machine& m, const std::string& text, const Arguments& given);
Value partition(Machine& m, const std::string& text, const Arguments& given, bool from_right);

}  // namespace ft::jinja
