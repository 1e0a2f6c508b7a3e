// Texts that are marked safe, markupsafe's Markup: by `safe` and `escape`. What is added to one is escaped
// first, and the mark stays on what is made of it. Printed they are texts as all others.
#pragma once
#include "data/chat/jinja/machine.h"
#include "data/chat/jinja/object.h"

namespace ft::jinja {

// The text, or each text of a list, with the mark.
Value marked_safe(Machine& m, const Value& value);
// A value's text with &, <, > and quotes as HTML writes them; a safe one as it is. With the mark.
Value escaped(Machine& m, const Value& value);

// A method of a safe text. Fails where its arguments would be escaped: format, join, replace.
Value safe_method(Machine& m, std::string_view name, Function::Body body, const Value& self);

}  // namespace ft::jinja
