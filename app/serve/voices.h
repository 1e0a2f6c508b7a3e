// The models that requests can name: the one that is served, and one for each adapter beside it. Each reads
// conversations with its own tokenizer and chat template where its folder has them.
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
  std::int32_t adapter = -1;             // its number; -1: none
  std::unique_ptr<Tokenizer> own;        // where the adapter has one
  const Tokenizer* tokenizer = nullptr;  // never null
  std::optional<Asking> asking;          // never nothing
};

// The model's voice first. UserError for names that are there twice, and for what is no adapter or tokenizer.
std::vector<Voice> make_voices(const Answerer&, const std::string& model_name,
                               const std::vector<lora::AdapterChoice::Named>& adapters);

// NAME=DIR, or DIR, whose last part is the name.
lora::AdapterChoice::Named adapter_named(const std::string& argument);

}  // namespace ft
