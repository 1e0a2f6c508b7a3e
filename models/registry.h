// The model families that ft knows.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/nn/model.h"

namespace ft {

// Of an encoder-decoder: the tokens around what the decoder reads and writes.
struct DecoderTokens {
  std::int32_t start = 0, pad = 0, end = 1;
};

// What the rest of the program asks of a config.json, whatever the family.
struct ModelInfo {
  std::string model_type, architecture;  // llama, LlamaForCausalLM
  std::int64_t vocab_size = 0;
  float initializer_range = 0.02f;
  std::optional<DecoderTokens> decoder;      // nothing: not an encoder-decoder
  std::vector<std::string> never_quantized;  // linears that stay as they are under QLoRA

  // The embedding's table in the files, other names under which they may repeat it, whether the head uses it
  // too, and what the states before the head are multiplied by.
  std::string embedding = "model.embed_tokens.weight";
  std::vector<std::string> embedding_copies;
  bool tied_head = false;
  float head_scale = 1;
};

// The model that config.json (a file) describes, computing in `dtype`; not bound to any memory yet.
// UserError(Exit::input) lists what is supported.
struct MadeModel {
  std::unique_ptr<Model> model;
  ModelInfo info;
};
MadeModel make_model(const std::string& config_json, DType dtype);

// The same of config.json alone: nothing for a model that is not an encoder-decoder.
std::optional<DecoderTokens> read_decoder_tokens(const std::string& config_json);

}  // namespace ft
