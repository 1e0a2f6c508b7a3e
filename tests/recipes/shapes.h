// Shapes of models on the hub: the fields of their config.json that decide shapes, in shapes/ORG--NAME.json,
// and their numbers of parameters.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/files/json.h"

namespace ft {

struct Published {
  const char* id;           // ORG/NAME
  std::int64_t parameters;  // as the hub counts them in the safetensors files
  std::int64_t adapter;     // parameters of PEFT's LoRA with r 16 on all linears; 0: no recipe trains it
};
extern const std::vector<Published> kPublished;

// Returns the path of the model's shapes.
std::string shapes_of(const std::string& id);

// Returns ft plan's JSON for a model with these options and settings, made of its shapes alone. The plan is
// for a GPU that is too small for any model: it recomputes as much as the settings allow, so its memory is
// the least.
Json least_plan(const std::string& id, const std::vector<std::string>& more);

}  // namespace ft
