// Settings of an adapter that match nothing in a model, for warnings and errors.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "lora/attach.h"

namespace ft::lora {

// Returns warnings, with the setting and the key, about: keys of rank_pattern and alpha_pattern,
// exclude_modules and ensure_weight_tying without effect, and modules_to_save that separates embedding and
// head. adapted: the modules and parameters with adapters, by the names that patterns are matched with.
std::vector<std::string> without_effect(Model&, const LoraConfig&, const std::set<std::string>& adapted,
                                        const Origin&);

// Returns "; for names that end so ..., write a list: ["q_proj"]" if the modules are a text that would match
// as a list; else "".
std::string list_meant(const Modules&, Model&);

}  // namespace ft::lora
