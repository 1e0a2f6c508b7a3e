// adapter_config.json, both ways.
#pragma once
#include <string>
#include <vector>

#include "engine/core/error.h"
#include "lora/config.h"

namespace ft::lora {

// Errors carry `exit` and name the file and the key.
LoraConfig read_adapter_config(const std::string& path, Exit exit, std::string& base_model);

// `linears` are the names of the adapted ones.
std::string adapter_config_text(const LoraConfig&, const std::vector<std::string>& linears,
                                const std::string& base_model);

}  // namespace ft::lora
