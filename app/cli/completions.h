// Words that a shell offers while a command line is typed: `ft --complete WORDS...`, which the scripts of `ft
// completion` call with every word after ft, the one being typed last. An offer is a word, or ":file" or
// ":directory" to make the shell look for files. No space follows an offer that ends in "=" or ".".
#pragma once
#include "app/commands/command.h"

namespace ft::commands {

inline constexpr const char* kCompleteCommand = "--complete";

Names completions(const CLI::App& root, const Names& words);

}  // namespace ft::commands
