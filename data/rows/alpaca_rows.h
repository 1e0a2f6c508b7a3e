// Writes an instruction as Stanford Alpaca's prompt.
#pragma once
#include <string>

namespace ft {

// Returns the text up to the beginning of the answer. `input` "": the row has none.
std::string alpaca_prompt(const std::string& instruction, const std::string& input);

}  // namespace ft
