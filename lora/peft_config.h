// adapter_config.json, reading and writing.
#pragma once
#include <string>
#include <vector>

#include "engine/core/error.h"
#include "lora/attach.h"
#include "lora/config.h"

namespace ft::lora {

// Returns the name of a module or parameter in PEFT and its settings, which is transformers' name in memory:
// GPT-NeoX's head is embed_out in the model's files and lm_head in memory.
std::string in_peft(const std::string& name);
// Returns the name of a module or parameter inside a larger model: model.layers.0 with "language_model."
// becomes model.language_model.layers.0. Also with PEFT's prefix before it.
std::string nested_name(const std::string& name, const std::string& nested);

struct AdapterConfig {
  LoraConfig lora;
  std::string base_model;             // as written; may be empty
  std::vector<std::string> warnings;  // about ignored keys
};
// all: also those that are folded into weights, see AdapterKind::read_only().
enum class KindsRead : bool { trained, all };
// Errors have the code `exit` and name the file and the key.
AdapterConfig read_adapter_config(const std::string& path, Exit exit, KindsRead = KindsRead::trained);
// Returns true if an adapter's folder holds a kind that is folded into weights. False also for a folder that
// is no adapter.
bool is_folded(const std::string& folder);

std::string adapter_config_text(const LoraConfig&, const Attached&, const std::string& base_model);

}  // namespace ft::lora
