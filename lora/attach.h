// Decides by PEFT's rules what to train, and gives the chosen Linears their adapters.
#pragma once
#include <map>
#include <string>

#include "engine/core/error.h"
#include "engine/model/model.h"
#include "engine/zero/parameter_store.h"
#include "lora/adapter.h"
#include "lora/config.h"
#include "lora/embedding.h"
#include "lora/experts.h"

namespace ft::lora {

inline constexpr const char* kPeftPrefix = "base_model.model.";  // of every name in a PEFT file

// Rows of a table that are a parameter of their own.
struct TokenTable {
  Parameter* values = nullptr;
  std::vector<std::int32_t> ids;
  std::string weight, stored;  // the table's name, and its name in the model's files
};

struct Attached {
  std::vector<std::string> linears;    // adapted, by name
  std::vector<LoraAdapter*> adapters;  // theirs, in the same order
  std::vector<std::string> weights;    // the names of their weights in the model's files
  std::vector<bool> turned;            // whether these are stored (in, out)
  std::vector<ExpertPart> experts;     // matrices under adapters of all experts of a layer
  bool single_experts = false;         // linears of single experts are adapted, as with transformers 4
  std::vector<Parameter*> whole;       // trained whole: modules_to_save and biases, by their base names
  std::string head = "lm_head";        // what the model calls it
  bool inputs_first = false;           // PEFT's fan_in_fan_out: some are, and not in 4 bits
  std::vector<TokenTable> tokens;
  EmbeddingLora* embedding = nullptr;  // null: none
  std::string embedding_module;        // its module, with `embedding`
  bool tied_lora = false;              // the head computes with it too
  std::vector<std::string> warnings;   // of settings that have no effect
};

// Where a LoraConfig comes from.
struct Origin {
  std::string prefix;  // of a setting's name in errors: "lora.", "start/adapter_config.json: "
  Exit exit = Exit::config;
  // Whether each target has to match something. PEFT is content when one of them does, so adapters made
  // elsewhere may name more than the model has; in a user's own settings it is a mistake.
  bool every_target = true;
  bool single_experts = false;  // linears of single experts may be meant, as with transformers 4
  std::string head = "lm_head", embedding = "model.embed_tokens";  // what the model calls them
  bool tied_head = false;                                          // they share the table
  bool one_embedding = true;  // false: encoder and decoder look tokens up in modules of their own
};

// Freezes everything, attaches adapters that compute in the given dtype, marks what else is trained.
// UserError when a target matches nothing.
Attached attach(Model&, const LoraConfig&, DType, const Origin&);

// After ranks have changed: new adapters in place of those attached. A Linear that the configuration no
// longer names loses its own.
void attach_again(Model&, Attached&, const LoraConfig&, DType, const Origin&);

// Full fine-tuning: everything is trained.
void train_all(Model&);

}  // namespace ft::lora
