// Prints values as Python does, and names their types.
#pragma once
#include <string>

#include "data/chat/jinja/machine.h"

namespace ft::jinja {

std::string type_of(const Value& value);  // such as "a text", "a list", "nothing (none)": for messages
std::string printed_float(double v);      // repr(1e16) is 1e+16

void write_str(Machine& m, Writer& out, const Value& value);   // str()
void write_repr(Machine& m, Writer& out, const Value& value);  // repr(): texts in quotes
std::string str_of(Machine& m, const Value& value);

// Format of json.dumps as transformers' tojson calls it.
struct JsonForm {
  bool ascii = false, sorted = false;
  std::string item = ", ", key = ": ";  // separators
  bool indented = false;
  std::string indent{};
};
void write_json(Machine& m, Writer& out, const Value& value, const JsonForm& form);

}  // namespace ft::jinja
