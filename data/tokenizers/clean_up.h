// clean_up_tokenization_spaces of transformers: removes spaces before punctuation.
#pragma once
#include <string>

namespace ft {

std::string cleaned_up(std::string text);

}  // namespace ft
