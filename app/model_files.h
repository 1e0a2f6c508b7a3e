// How what was trained lies on disk: an adapter in PEFT's files, or a whole model in Hugging Face's.
#pragma once
#include <memory>
#include <optional>

#include "app/assembly.h"
#include "engine/train/checkpoint.h"

namespace ft {

std::unique_ptr<ModelFiles> make_model_files(const BuiltModel&);

// config.json of `folder` as text, with the weights' type set to `dtype` under the key that it uses.
std::string config_with_dtype(const std::string& folder, DType dtype);

// Whether a folder has a tokenizer of its own.
bool holds_tokenizer(const std::string& folder);
// Copies the tokenizer's files, those that there are.
void copy_tokenizer(const std::string& from, const std::string& to);
// Copies all that makes a model folder beside config.json and the weights: the tokenizer from where it lies,
// and from the model's folder how to generate with it and its licence.
void copy_companions(const std::string& model, const std::string& tokenizer, const std::string& to);

// What --dtype says; nothing when it is not given. UserError(Exit::config) for another word.
std::optional<DType> parse_dtype(const std::string& name);

// Makes the folder that a command writes to; one that holds something is refused unless it may be
// overwritten.
void require_new_folder(const std::string& folder, bool overwrite);

}  // namespace ft
