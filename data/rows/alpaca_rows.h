// Stanford Alpaca's words around an instruction.
#pragma once
#include <string>

namespace ft {

// Up to where the answer begins. `input` "": there is none.
std::string alpaca_prompt(const std::string& instruction, const std::string& input);

}  // namespace ft
