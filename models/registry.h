// The model families that ft knows.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "engine/nn/model.h"

namespace ft {

// What the rest of the program asks of a config.json, whatever the family.
struct ModelInfo {
  std::string model_type, architecture;  // llama, LlamaForCausalLM
  std::int64_t vocab_size = 0;
  float initializer_range = 0.02f;
};

// The model that config.json (a file) describes, computing in `dtype`; not bound to any memory yet.
// UserError(Exit::input) lists what is supported.
struct MadeModel {
  std::unique_ptr<Model> model;
  ModelInfo info;
};
MadeModel make_model(const std::string& config_json, DType dtype);

}  // namespace ft
