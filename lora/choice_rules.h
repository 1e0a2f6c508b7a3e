// Rules about adapters that requests choose.
#pragma once
#include <string>

#include "lora/peft.h"

namespace ft::lora {

// Returns the setting of an adapter that would change computations that all rows share; "": there is none.
std::string shared_part(const LoraConfig&, const AdapterFolder&, const std::string& embedding);
// Throws UserError (input) about an adapter, or a part of one, that requests cannot choose.
[[noreturn]] void refuse_choice(const AdapterFolder&, const std::string& what);

}  // namespace ft::lora
