// LLaMA-Factory's YAML: its keys besides transformers' TrainingArguments, and its data sets.
#pragma once
#include <span>

#include "app/translate/flag.h"

namespace ft::translate::llama_factory {

std::span<const Flag> own_keys();

// Makes data.datasets of the names in `dataset`, which dataset_info.json describes, and of `stage`. Throws
// UserError (config) if that file is missing or does not know a name, or if a data set has pictures or
// sound.
void choose_data(const SettingsText& file, const Given&, Draft&);

}  // namespace ft::translate::llama_factory
