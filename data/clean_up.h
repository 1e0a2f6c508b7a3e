// clean_up_tokenization_spaces of transformers: takes spaces in front of punctuation away.
#pragma once
#include <string>

namespace ft {

std::string cleaned_up(std::string text);

}  // namespace ft
