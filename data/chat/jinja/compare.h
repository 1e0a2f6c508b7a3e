// Truth, equality and order of values, as in Python.
#pragma once
#include "data/chat/jinja/machine.h"

namespace ft::jinja {

bool truth(const Value& value);
bool equal(Machine& m, const Value& a, const Value& b);
bool less(Machine& m, const Value& a, const Value& b);  // fails for types that have no order
bool contains(Machine& m, const Value& in, const Value& what);
bool same(const Value& a, const Value& b);  // Python's `is`
// Returns nullopt if the value has no length.
std::optional<std::int64_t> length(const Value& value);

}  // namespace ft::jinja
