// What filters of lists share: an item's attribute by a path such as 'function.name' or 0.
#pragma once
#include "data/chat/jinja/machine.h"

namespace ft::jinja {

// `path` undefined or none: the item itself. `otherwise` stands for what is undefined, where it is given.
Value by_path(Machine& m, const Value& item, const Value& path, const Value& otherwise = {});

}  // namespace ft::jinja
