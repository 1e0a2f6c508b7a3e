// The files of a training result: an adapter in PEFT's format, or a complete model in Hugging Face's.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/assembly/built_model.h"
#include "engine/files/json.h"
#include "engine/train/checkpoint.h"

namespace ft {

std::unique_ptr<ModelFiles> make_model_files(const BuiltModel&);

// config.json of `folder` as text, with the weights' type set to `dtype` under the key that it uses, and the
// vocabulary's size where it has grown.
std::string config_with_dtype(const std::string& folder, DType dtype, std::optional<std::int64_t> rows = {});

// Says in config.json that the head has a table of its own, where the files of a decoder hold two and it says
// otherwise. An encoder-decoder scales by that setting and keeps it.
void write_tying(Json& config, const ModelInfo&);

// Whether the folder of a tokenizer (or of its file) says how conversations are written.
bool holds_chat_template(const std::string& tokenizer);
// Whether a folder has a tokenizer of its own.
bool holds_tokenizer(const std::string& folder);
// Copies the tokenizer's files, those that there are.
void copy_tokenizer(const std::string& from, const std::string& to);
// Copies everything that makes a model folder, apart from config.json and the weights: the tokenizer from its
// place; the generation settings and the licence from the model's folder.
void copy_companions(const std::string& model, const std::string& tokenizer, const std::string& to);

// Bytes that the two copy; model empty: the tokenizer's.
std::int64_t companion_bytes(const std::string& model, const std::string& tokenizer);
// Adds the token that closes a turn to the end tokens in generation_config.json, if the folder says that its
// rows were conversations (data/batches/kept_prompts.h): other programs then stop there too. For complete
// models.
void end_at_turns(const std::string& folder);

// What --dtype says; nothing when it is not given. UserError(Exit::config) for another word.
std::optional<DType> parse_dtype(const std::string& name);

// UserError(Exit::config), naming `setting`, when one of `inputs` is `folder`, or a file or checkpoint in it:
// replacing the folder's content would delete the input. Empty inputs are ignored.
void require_outside(const std::string& folder, const std::string& setting,
                     const std::vector<std::string>& inputs);
// True where two paths lead to one place, through links and mounts too.
bool same_place(const std::string& a, const std::string& b);
// UserError(Exit::config), naming `setting`, when one of `inputs` is `folder` by any name: its files would be
// replaced. Empty inputs are ignored.
void require_other_folder(const std::string& folder, const std::string& setting,
                          const std::vector<std::string>& inputs);
// Removes the model or adapter that a folder holds, with all that copy_companions() brings; what ft did not
// write stays.
void remove_result(const std::string& folder);
// True for the file of a model or adapter that remove_result() removes, templates apart.
bool is_result_file(const std::filesystem::path& file);

}  // namespace ft
