// Chooses the trained parameters by PEFT's rules, and gives the chosen Linears their adapters.
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

inline constexpr const char* kPeftPrefix = "base_model.model.";  // begins every name in a PEFT file

// Rows of a table that are trained as a separate parameter.
struct TokenTable {
  Parameter* values = nullptr;
  std::vector<std::int32_t> ids;
  std::string weight, stored;  // the table's name, and its name in the model's files
};

struct Attached {
  std::vector<std::string> linears;      // names of the adapted Linears
  std::vector<LinearAdapter*> adapters;  // their adapters, in the same order
  std::vector<std::string> weights;      // the names of their weights in the model's files
  std::vector<bool> turned;              // true: the weight is stored (in, out)
  std::vector<ExpertPart> experts;       // matrices with adapters that cover all experts of a layer
  bool single_experts = false;           // Linears of single experts are adapted, as with transformers 4
  std::vector<Parameter*> whole;  // completely trained parameters: modules_to_save and biases, by base names
  std::string head = "lm_head";   // the head's name in the model
  bool inputs_first = false;  // PEFT's fan_in_fan_out: some weights are stored (in, out), and not in 4 bits
  std::vector<TokenTable> tokens;
  EmbeddingLora* embedding = nullptr;  // null: none
  std::string embedding_module;        // the embedding's module, if `embedding` is set
  bool tied_lora = false;              // the head uses `embedding` too
  std::string nested;                  // see Origin
  // Beginning of the model's names, such as "model.", that PEFT's names lack because its model has no head.
  std::string bare{};
  std::vector<std::string> warnings;  // about settings without effect
};

// The source of a LoraConfig, and the model's names.
struct Origin {
  std::string prefix;  // of a setting's name in errors: "lora.", "start/adapter_config.json: "
  Exit exit = Exit::config;
  // every_target: each target must match a module. PEFT requires only one match, so adapters from other
  // programs may name more modules than the model has. In a user's settings an unmatched target is a mistake.
  bool every_target = true;
  bool single_experts = false;  // targets may be Linears of single experts, as with transformers 4
  std::string head = "lm_head", embedding = "model.embed_tokens";  // their names in the model
  bool tied_head = false;                                          // head and embedding share the table
  bool one_embedding = true;  // false: encoder and decoder have separate embedding modules
  // Part of PEFT's names after "model.", such as "language_model.", if PEFT adapts a larger model that holds
  // this one; empty: none.
  std::string nested = {};
};

// Freezes all parameters, attaches adapters that compute in the given dtype, and marks the other trained
// parameters. Throws UserError (origin.exit) if a target matches nothing.
Attached attach(Model&, const LoraConfig&, DType, const Origin&);

// A Linear that a configuration adapts, with LoRA's numbers for it.
struct ChosenLinear {
  const Linear* linear;
  std::string weight;  // the weight's name in the model's files
  std::int64_t rank;
  float scale;  // alpha / rank
};
// Returns the Linears that attach() would adapt, without experts and their routers. Throws UserError
// (origin.exit) if a target matches nothing. Changes nothing.
std::vector<ChosenLinear> choose_linears(Model&, const LoraConfig&, const Origin&);

// Returns true if an entry of modules_to_save covers a parameter of the model: the name of a module around it
// ends with the entry, even within a part of the name.
bool saves(const std::string& entry, const std::string& parameter);

// Call after ranks have changed: replaces the attached adapters by new ones. A Linear that the configuration
// no longer names loses its adapter.
void attach_again(Model&, Attached&, const LoraConfig&, DType, const Origin&);

// Makes all parameters except constants trainable, for full fine-tuning.
void train_all(Model&);

}  // namespace ft::lora
