// How what was trained lies on disk: an adapter in PEFT's files, or a whole model in Hugging Face's.
#pragma once
#include <memory>

#include "app/assembly.h"
#include "engine/train/checkpoint.h"

namespace ft {

std::unique_ptr<ModelFiles> make_model_files(const BuiltModel&);

// config.json of `folder` as text, with the weights' type set to `dtype` under the key that it uses.
std::string config_with_dtype(const std::string& folder, DType dtype);

// Copies the tokenizer's and the generation's files of a model folder, those that there are.
void copy_companions(const std::string& from, const std::string& to);

// What --dtype says; nothing when it is not given. UserError(Exit::config) for another word.
std::optional<DType> parse_dtype(const std::string& name);

// Makes the folder that a command writes to; one that holds something is refused unless it may be
// overwritten.
void require_new_folder(const std::string& folder, bool overwrite);

}  // namespace ft
