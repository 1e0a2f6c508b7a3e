// Helper of list filters: an item's attribute by a path such as 'function.name' or 0.
#pragma once
#include "data/chat/jinja/machine.h"

namespace ft::jinja {

// Returns the item itself if `path` is undefined or none. Returns `otherwise`, if given, in place of
// undefined values.
Value by_path(Machine& m, const Value& item, const Value& path, const Value& otherwise = {});

}  // namespace ft::jinja
