// The config.json of a LLaMA-like decoder: LLaMA, Mistral, Qwen2 and Qwen3 differ only in these settings.
#pragma once
#include "models/decoder/config.h"

namespace ft::llama {

using decoder::Config;

// Throws UserError (input) with the file and the key if a key is missing, wrong or not supported.
Config read_config(const std::filesystem::path& config_json);

}  // namespace ft::llama
