// adapter_config.json, both ways.
#pragma once
#include <string>

#include "engine/core/error.h"
#include "lora/attach.h"
#include "lora/config.h"

namespace ft::lora {

// Errors carry `exit` and name the file and the key.
LoraConfig read_adapter_config(const std::string& path, Exit exit, std::string& base_model);

std::string adapter_config_text(const LoraConfig&, const Attached&, const std::string& base_model);

}  // namespace ft::lora
