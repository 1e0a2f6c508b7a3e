// The model families that ft knows.
#pragma once
#include "models/family.h"

namespace ft {

// Makes the model that config.json (a file) describes, computing in `dtype`; it is not bound to memory yet.
// Throws UserError (input), which lists the supported models, if ft does not know it.
MadeModel make_model(const std::string& config_json, DType dtype);
// Returns the description of config.json's model in GGUF.
GgufModel make_gguf_model(const std::string& config_json);
// Makes config.json from a GGUF file: architectures, and the keys of its family. Throws UserError (input),
// which lists the supported architectures, if ft does not read the file's.
Json read_gguf_config(const GgufKeyReader&);

// Facts that config.json alone gives; nothing if ft does not know the model_type.
std::optional<DecoderTokens> read_decoder_tokens(const std::string& config_json);  // encoder-decoders only
std::vector<std::string> read_lora_targets(const std::string& config_json);        // see Family

}  // namespace ft
