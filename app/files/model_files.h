// The files of a training result: an adapter in PEFT's format, or a complete model in Hugging Face's.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/assembly/built_model.h"
#include "engine/files/json.h"
#include "engine/files/safetensors/stacks.h"
#include "engine/train/checkpoint.h"

namespace ft {

std::unique_ptr<ModelFiles> make_model_files(const BuiltModel&);

// Returns the tensors of a complete model as its family's files have them.
Stacks file_stacks(const std::vector<TensorSpec>&, const ModelInfo&);
// True if they have this weight in a tensor with those of other experts.
bool is_stacked(const ModelInfo&, const std::string& weight);

// Returns config.json of `folder` as text, with the weights' dtype set under the key that the file uses.
// `rows`: the size of an enlarged vocabulary.
std::string config_with_dtype(Json config, DType dtype, std::optional<std::int64_t> rows = {});
// Returns the model's config.json; of the text model alone if the folder's model has other parts.
Json model_config(const BuiltModel&);

// Clears tie_word_embeddings in a decoder's config.json if the files hold a separate head. An encoder-decoder
// scales by that setting and keeps it.
void write_tying(Json& config, const ModelInfo&);

// True if the folder of a tokenizer (or of its file) has a chat template.
bool holds_chat_template(const std::string& tokenizer);
// True if a folder has tokenizer files.
bool holds_tokenizer(const std::string& folder);
// Copies the tokenizer's files that exist.
void copy_tokenizer(const std::string& from, const std::string& to);
// Copies all files of a model folder except config.json and the weights: the tokenizer's files from its
// folder, and the generation settings and the licence from the model's.
void copy_companions(const std::string& model, const std::string& tokenizer, const std::string& to);

// Returns the size in bytes of the files that copy_companions() copies; with an empty `model`, of the files
// that copy_tokenizer() copies.
std::int64_t companion_bytes(const std::string& model, const std::string& tokenizer);
// Adds the token that closes a turn to the end tokens in generation_config.json, if the folder records that
// its rows were conversations (data/batches/kept_prompts.h). Other programs then stop there too. For complete
// models.
void end_at_turns(const std::string& folder);

// Returns the dtype that --dtype names; nothing for "". Throws UserError (config) if there is no such dtype.
std::optional<DType> parse_dtype(const std::string& name);

// Throws UserError (config), naming `setting`, if an input is `folder`, or a file or checkpoint in it:
// replacing the folder's content would delete the input. Ignores empty inputs.
void require_outside(const std::string& folder, const std::string& setting,
                     const std::vector<std::string>& inputs);
// True if two paths lead to one place, through links and mounts too.
bool same_place(const std::string& a, const std::string& b);
// Throws UserError (config), naming `setting`, if an input is `folder` by any name: its files would be
// replaced. Ignores empty inputs.
void require_other_folder(const std::string& folder, const std::string& setting,
                          const std::vector<std::string>& inputs);
// Removes the model or adapter in a folder, with all files that copy_companions() copies. Keeps files that ft
// did not write.
void remove_result(const std::string& folder);
// Returns the files that remove_result() removes.
std::vector<std::filesystem::path> files_of_result(const std::string& folder);
// True for a file that remove_result() removes, except templates.
bool is_result_file(const std::filesystem::path& file);

}  // namespace ft
