// Reads DeepSpeed's JSON as DeepSpeed does, HJSON's comments (//, #, /* */) and trailing commas included.
#pragma once
#include <string>

#include "engine/settings/fields.h"

namespace ft::deepspeed {

// The file's settings and the lines of its keys. `name` is what errors call it. UserError(Exit::config) where
// it is not JSON, holds quotes, dashes or spaces of typography outside of texts, has a key twice, or is no
// object.
SettingsText parse_file(const std::string& text, const std::string& name);
SettingsText read_file(const std::string& path);

}  // namespace ft::deepspeed
