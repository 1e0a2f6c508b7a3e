// A model family: everything that the rest of the program needs to know about it. Each family's folder
// defines one, and registry.cpp lists them.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/files/json.h"
#include "engine/files/safetensors/weights.h"
#include "engine/model/model.h"
#include "models/gguf/gguf.h"
#include "models/gguf/gguf_key_reader.h"

namespace ft {

// Special tokens of an encoder-decoder, for the decoder's input and output.
struct DecoderTokens {
  std::int32_t start = 0, pad = 0, end = 1;
};

// Facts about one model that the rest of the program needs.
struct ModelInfo {
  std::string model_type, architecture;  // llama, LlamaForCausalLM
  std::int64_t vocab_size = 0;
  float initializer_range = 0.02f;
  std::optional<DecoderTokens> decoder;  // nullopt: not an encoder-decoder
  bool writes = true;                    // the head gives tokens, not scores or states
  // Name of the head in transformers' *ForTokenClassification; empty: there is no such class.
  std::string token_classifier;
  std::vector<std::string> never_quantized;  // linears that QLoRA does not quantize
  std::string fp16_warning;                  // reason against training in float16; empty: none known

  // embedding: the embedding table's name in the files. embedding_copies: other names under which the files
  // may repeat it. head: the head's linear. head_scale multiplies the states before the head.
  std::string embedding = "model.embed_tokens.weight", head = "lm_head";
  std::vector<std::string> embedding_copies;
  StoredNames stored;           // differences between names here and in files
  bool stacks_experts = false;  // files are written with the stacks of `stored`
  std::int64_t positions = 0;   // length limit of a sequence in tokens; 0: no limit
  bool tied_head = false;
  bool two_tables = false;   // config.json says the head shares the table, but the files hold two
  bool mxfp4 = false;        // the files hold stacks of experts in MXFP4
  bool router_loss = false;  // training adds the routers' loss for uneven use of experts
  float head_scale = 1;
  float norm_offset = 0;  // added by norms to their weights
  // Another table with a row for each token, so that the vocabulary cannot grow; empty: none.
  std::string other_table;
  std::string note;  // about the model, for people; empty: none
  // Part of PEFT's names before the text model's names, "language_model.", if PEFT adapts the larger model in
  // the files; empty: PEFT adapts the text model alone.
  std::string peft_nested;
  std::string head_weight() const { return head + ".weight"; }
};

struct MadeModel {
  std::unique_ptr<Model> model;
  ModelInfo info;
};

struct Family {
  // Makes the model that config.json (a file) describes; info lacks model_type and architecture.
  MadeModel (*make)(const std::string& config_json, DType);
  // Returns the model's description in GGUF. Throws UserError if GGUF cannot express it.
  GgufModel (*gguf)(const std::string& config_json);
  // Makes config.json from a GGUF file, without architectures, special tokens and torch_dtype. Null: GGUF has
  // no such models.
  Json (*from_gguf)(const GgufKeyReader&) = nullptr;
  DecoderTokens (*decoder_tokens)(const JsonObject& config) = nullptr;  // null: not an encoder-decoder
  // PEFT's default target_modules of this family; empty: PEFT has no default, so ft takes all linears but the
  // head.
  std::span<const std::string_view> lora_targets = {};
};

}  // namespace ft
