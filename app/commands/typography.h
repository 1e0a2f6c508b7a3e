// Typographic characters on ft's command line: pasted from a web page, where they are seldom meant.
#pragma once
#include <string>
#include <vector>

namespace ft {

// UserError(Exit::config) with the character and the command as it was meant. Left alone are the value of
// --prompt, words with spaces (whose quotes were plain), valid JSON, names of files that are there, and what
// ft translate-args is to translate.
void refuse_typography(const std::vector<std::string>& arguments);

}  // namespace ft
