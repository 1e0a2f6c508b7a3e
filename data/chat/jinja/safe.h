// Texts that `safe` and `escape` mark as safe, like markupsafe's Markup. Texts added to a safe one are
// escaped first, and results of its operations are safe too. Safe texts are printed like all others.
#pragma once
#include "data/chat/jinja/machine.h"
#include "data/chat/jinja/object.h"

namespace ft::jinja {

// Marks a text, or each text of a list.
Value marked_safe(Machine& m, const Value& value);
// Returns the value's text with &, <, > and quotes as HTML writes them, marked as safe; a safe text stays
// unchanged.
Value escaped(Machine& m, const Value& value);

// Returns a method of a safe text. Fails if its arguments would have to be escaped: format, join, replace.
Value safe_method(Machine& m, std::string_view name, Function::Body body, const Value& self);

}  // namespace ft::jinja
