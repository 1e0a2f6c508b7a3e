// The card of a model that a hub shows: README.md with a header in YAML, as PEFT and transformers write it.
#pragma once
#include <filesystem>
#include <string>

namespace ft::hub {

struct CardFacts {
  std::string id;               // org/name of the model itself
  std::string base_model;       // id of the hub; empty: unknown
  std::filesystem::path cache;  // of the hub, where the base's card tells its licence
};

// Returns the id of the base model of the model or adapter in a folder, as its files tell it; empty if they
// name a path that is no folder of the hub's cache, or nothing.
std::string base_model_of(const std::filesystem::path& folder);
// Returns the id for a model as a run names it: an id, or a folder of the hub's cache; empty: neither.
std::string id_of_model(const std::string& name);

// Returns the card for the adapter, model or GGUF file in a folder, from its files: run.json,
// trainer_state.json, adapter_config.json, config.json.
std::string model_card(const std::filesystem::path& folder, const CardFacts& facts);

}  // namespace ft::hub
