// Jinja's filters and tests, and Python's methods, by name.
#pragma once
#include <string_view>

#include "data/chat/jinja/machine.h"

namespace ft::jinja {

using Filter = Value (*)(Machine&, const Value& subject, const Arguments&);
using Test = bool (*)(Machine&, const Value& subject, const Arguments&);

struct NamedFilter {
  std::string_view name;
  Filter filter;
};
struct NamedTest {
  std::string_view name;
  Test test;
};

// Return null if there is no filter or test with this name.
Filter filter_by_name(std::string_view name);
Test test_by_name(std::string_view name);
// A method of texts, lists or objects. `changes`: it would change its value, which templates may not do.
struct Method {
  std::string_view name;
  Function::Body body;
  bool changes = false;
};
const Method* method_of(const Value& value, std::string_view name);

// Filters and methods of each file.
Filter text_filter(std::string_view name);
Filter number_filter(std::string_view name);
Filter list_filter(std::string_view name);
Filter selecting_filter(std::string_view name);
const Method* text_method(std::string_view name);

// Returns a global function or variable; nullopt if there is none.
std::optional<Value> global(std::string_view name);

// Format values: '%s has %d' % values, and '{} has {}'.format(values).
Value percent_format(Machine& m, const std::string& form, const Value& values);
Value brace_format(Machine& m, const std::string& form, const Arguments& arguments);
// Format of one number or text, as Python's format() or % describe it.
struct Form {
  char fill = ' ', align = 0, sign = '-', type = 0, group = 0;
  bool alternate = false;
  std::int64_t width = 0, precision = -1;
};
void write_formatted(Machine& m, Writer& out, const Value& value, Form form);

}  // namespace ft::jinja
