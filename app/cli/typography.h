// Typographic characters on ft's command line. They come from web pages by copying, and are seldom meant.
#pragma once
#include <string>
#include <vector>

namespace ft {

// Throws UserError (config) with the character and the command that was meant. It leaves alone: the value of
// --prompt, words with spaces (whose quotes were plain), valid JSON, names of existing files, and the command
// given to ft import or ft translate-args.
void refuse_typography(const std::vector<std::string>& arguments);

}  // namespace ft
