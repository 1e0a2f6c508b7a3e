// Reads DeepSpeed's JSON as DeepSpeed does, with HJSON's comments (//, #, /* */) and trailing commas.
#pragma once
#include <string>

#include "engine/settings/fields.h"

namespace ft::deepspeed {

// Returns the file's settings and the lines of its keys. Errors call the file `name`. Throws UserError
// (config) if it is not JSON, has typographic quotes, dashes or spaces outside of texts, repeats a key, or is
// not an object.
SettingsText parse_file(const std::string& text, const std::string& name);
SettingsText read_file(const std::string& path);

}  // namespace ft::deepspeed
