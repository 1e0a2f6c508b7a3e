// Settings of an adapter that fit nothing in a model, for warnings and errors.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "lora/attach.h"

namespace ft::lora {

// Warnings of keys of rank_pattern and alpha_pattern, of exclude_modules and of ensure_weight_tying that
// change nothing, and of modules_to_save that parts embedding and head: each names the setting and the key.
// adapted: the modules and parameters that have adapters, by the names that patterns are matched with.
std::vector<std::string> without_effect(Model&, const LoraConfig&, const std::set<std::string>& adapted,
                                        const Origin&);

// "; for names that end so ..., write a list: ["q_proj"]" where the modules are one text that would fit as a
// list; else "".
std::string list_meant(const Modules&, Model&);

}  // namespace ft::lora
