// The models that requests can name: the served model, and the model with each adapter. Each reads
// conversations with its own tokenizer and chat template if its folder has them.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/answers/asking.h"
#include "app/answers/generation.h"
#include "lora/choice.h"

namespace ft {

struct Voice {
  std::string name;
  std::int32_t adapter = -1;             // number of the adapter; -1: none
  std::unique_ptr<Tokenizer> own;        // the adapter's tokenizer, if it has one
  const Tokenizer* tokenizer = nullptr;  // never null
  std::optional<Asking> asking;          // always set
};

// Returns the voices, the model's first. Throws UserError (config) if two names are equal, (input) if a
// folder is not an adapter or its tokenizer cannot be read.
std::vector<Voice> make_voices(const Answerer&, const std::string& model_name,
                               const std::vector<lora::AdapterChoice::Named>& adapters);

// Reads NAME=DIR, or DIR, whose last part is the name.
lora::AdapterChoice::Named adapter_named(const std::string& argument);

}  // namespace ft
