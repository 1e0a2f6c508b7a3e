// Warns about markers of a chat template that the model does not know.
#pragma once
#include <filesystem>
#include <string>

#include "data/tokenizers/tokenizer.h"

namespace ft {

// Returns a note about markers (<|im_start|>, <start_of_turn>, ...) of data.chat_template that the tokenizer
// splits into pieces because the model does not know them. Returns "" if there are none, or the template is
// the model's.
std::string note_about_markers(const std::string& setting, const std::filesystem::path& tokenizer_path,
                               const Tokenizer& tokenizer);

}  // namespace ft
