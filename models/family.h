// A model family: everything that the rest of the program asks about it. Each family's folder has one, and
// registry.cpp lists them.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/files/json.h"
#include "engine/files/weights.h"
#include "engine/model/model.h"
#include "models/gguf.h"
#include "models/gguf_key_reader.h"

namespace ft {

// Encoder-decoders: the tokens around what the decoder reads and writes.
struct DecoderTokens {
  std::int32_t start = 0, pad = 0, end = 1;
};

// What the rest of the program asks about one model.
struct ModelInfo {
  std::string model_type, architecture;  // llama, LlamaForCausalLM
  std::int64_t vocab_size = 0;
  float initializer_range = 0.02f;
  std::optional<DecoderTokens> decoder;      // nothing: not an encoder-decoder
  std::vector<std::string> never_quantized;  // linears that stay as they are under QLoRA
  std::string fp16_warning;                  // why not to train it in float16; empty: nothing is known

  // The embedding's table in the files, other names under which they may repeat it, the head's linear,
  // whether it uses the table too, and what the states before the head are multiplied by.
  std::string embedding = "model.embed_tokens.weight", head = "lm_head";
  std::vector<std::string> embedding_copies;
  StoredNames stored;          // how its files' names may differ
  std::int64_t positions = 0;  // tokens of the longest sequence; 0: there is no limit
  bool tied_head = false;
  bool two_tables = false;   // config.json says that the head shares the table, and its files hold another
  bool router_loss = false;  // training adds what routers cost that use experts unevenly
  float head_scale = 1;
  float norm_offset = 0;  // what norms add to their weights
  std::string head_weight() const { return head + ".weight"; }
};

struct MadeModel {
  std::unique_ptr<Model> model;
  ModelInfo info;
};

struct Family {
  // The model that config.json (a file) describes; info without model_type and architecture.
  MadeModel (*make)(const std::string& config_json, DType);
  // The same as GGUF describes it. UserError where GGUF cannot say it.
  GgufModel (*gguf)(const std::string& config_json);
  // Makes config.json from a GGUF file, without architectures, special tokens and torch_dtype. Null: GGUF has
  // no such models.
  Json (*from_gguf)(const GgufKeyReader&) = nullptr;
  DecoderTokens (*decoder_tokens)(const JsonObject& config) = nullptr;  // null: not an encoder-decoder
  // PEFT's target_modules where none are named; empty: all linears but the head, where ft goes beyond it.
  std::span<const std::string_view> lora_targets = {};
};

}  // namespace ft
