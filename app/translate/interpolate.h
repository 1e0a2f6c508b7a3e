// References between the values of a file, as OmegaConf has them.
#pragma once
#include "engine/settings/fields.h"

namespace ft::translate {

// Replaces "${a.b}" in texts by the value of the key a.b. A text that is only a reference gets its type.
// Throws UserError (config) with the line for a reference to nothing, to itself, or to more than a value,
// and for OmegaConf's functions, ${name:...}.
void interpolate(SettingsText& file);

}  // namespace ft::translate
