// The files that make a model's folder one of sentence-transformers: modules.json and its folders.
#pragma once
#include <filesystem>
#include <string>

#include "app/assembly/built_model.h"

namespace ft {

// Writes them if the model embeds texts.
void write_sentence_files(const std::string& folder, const BuiltModel&);

// Throws UserError (input) if a folder's model embeds texts and lacks them, as checkpoints do.
void require_sentence_files(const std::string& folder);
// Copies those of a folder that has them.
void copy_sentence_files(const std::string& from, const std::string& to);

// True for such a file, or folder, in a model's folder.
bool is_sentence_file(const std::filesystem::path&);

}  // namespace ft
