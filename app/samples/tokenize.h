// ft tokenize: text to token ids and back, one JSON value per line.
#pragma once
#include <iosfwd>
#include <string>

#include "data/tokenizers/tokenizer.h"

namespace ft {

struct TokenizeOptions {
  std::string model;                 // folder
  bool no_special_tokens = false;    // without what the tokenizer puts around a text
  bool decode = false;               // lines are arrays of ids, and become texts
  bool skip_special_tokens = false;  // decoding leaves special tokens out
};

// Reads lines from `in` until its end; blank ones are skipped. What is wrong with a line is a UserError (exit
// 3) that names it; the lines before it have been answered by then.
void tokenize(const Tokenizer& tokenizer, const TokenizeOptions& options, std::istream& in,
              std::ostream& out);

// The command: stdin to stdout.
void tokenize_command(const TokenizeOptions& options);

}  // namespace ft
