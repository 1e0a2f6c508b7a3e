// The model families that ft knows.
#pragma once
#include "models/family.h"

namespace ft {

// The model that config.json (a file) describes, computing in `dtype`; not bound to any memory yet.
// UserError(Exit::input) lists what is supported.
MadeModel make_model(const std::string& config_json, DType dtype);
// The same as GGUF describes it.
GgufModel make_gguf_model(const std::string& config_json);
// Makes config.json from a GGUF file: architectures, and the keys of its family. UserError(Exit::input) lists
// the architectures that ft reads.
Json read_gguf_config(const GgufKeyReader&);

// What config.json alone says; nothing for a model_type that ft does not know.
std::optional<DecoderTokens> read_decoder_tokens(const std::string& config_json);  // encoder-decoders only
std::vector<std::string> read_lora_targets(const std::string& config_json);        // see Family

}  // namespace ft
