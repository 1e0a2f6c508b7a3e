// The files beside a model's by which sentence-transformers makes embeddings: modules.json and its folders.
#pragma once
#include <filesystem>
#include <string>

#include "app/assembly/built_model.h"

namespace ft {

// Writes them if the model embeds texts.
void write_sentence_files(const std::string& folder, const BuiltModel&);

// True for such a file, or folder, in a model's folder.
bool is_sentence_file(const std::filesystem::path&);

}  // namespace ft
