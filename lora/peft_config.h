// adapter_config.json, both ways.
#pragma once
#include <string>
#include <vector>

#include "engine/core/error.h"
#include "lora/attach.h"
#include "lora/config.h"

namespace ft::lora {

// A module or parameter as PEFT and its settings call it, which is as transformers does in memory: GPT-NeoX's
// head, embed_out in the model's files, is lm_head there.
std::string in_peft(const std::string& name);

struct AdapterConfig {
  LoraConfig lora;
  std::string base_model;             // as written; may be empty
  std::vector<std::string> warnings;  // of keys that are ignored
};
// Errors carry `exit` and name the file and the key.
AdapterConfig read_adapter_config(const std::string& path, Exit exit);

std::string adapter_config_text(const LoraConfig&, const Attached&, const std::string& base_model);

}  // namespace ft::lora
