// How what was trained lies on disk: an adapter in PEFT's files, or a whole model in Hugging Face's.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/assembly/built_model.h"
#include "engine/train/checkpoint.h"

namespace ft {

std::unique_ptr<ModelFiles> make_model_files(const BuiltModel&);

// config.json of `folder` as text, with the weights' type set to `dtype` under the key that it uses.
std::string config_with_dtype(const std::string& folder, DType dtype);

// Whether the folder of a tokenizer (or of its file) says how conversations are written.
bool holds_chat_template(const std::string& tokenizer);
// Whether a folder has a tokenizer of its own.
bool holds_tokenizer(const std::string& folder);
// Copies the tokenizer's files, those that there are.
void copy_tokenizer(const std::string& from, const std::string& to);
// Copies all that makes a model folder beside config.json and the weights: the tokenizer from where it lies,
// and from the model's folder how to generate with it and its licence.
void copy_companions(const std::string& model, const std::string& tokenizer, const std::string& to);

// What --dtype says; nothing when it is not given. UserError(Exit::config) for another word.
std::optional<DType> parse_dtype(const std::string& name);

// UserError(Exit::config), naming `setting`, when one of `inputs` is `folder`, a file or a checkpoint in it:
// replacing what the folder holds would take away what is read. Empty inputs are none.
void require_outside(const std::string& folder, const std::string& setting,
                     const std::vector<std::string>& inputs);
// Removes the model or adapter that a folder holds, with all that copy_companions() brings; what ft did not
// write stays.
void remove_result(const std::string& folder);
// Makes the folder that a command writes to from `inputs`. One that holds something is refused, or, to be
// overwritten, loses the model or adapter in it, so that nothing old lies beside what is new.
void require_new_folder(const std::string& folder, bool overwrite, const std::vector<std::string>& inputs);

}  // namespace ft
