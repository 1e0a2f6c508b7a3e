// torchtune's YAML: its keys, and data sets.
#pragma once
#include <span>

#include "app/translate/flag.h"

namespace ft::translate::torchtune {

std::span<const Flag> all_keys();

// Returns the last part of a component's name: torchtune.models.llama3.lora_llama3_8b -> lora_llama3_8b.
std::string last_part(const std::string& component);

// Makes data.datasets of `dataset` and `dataset_val`. Throws UserError (config) for data that ft does not
// read.
void choose_data(const Given&, Draft&);

}  // namespace ft::translate::torchtune
