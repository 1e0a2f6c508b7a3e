// ft tokenize: converts text to token ids and back, one JSON value per line.
#pragma once
#include <iosfwd>
#include <string>

#include "data/tokenizers/tokenizer.h"

namespace ft {

struct TokenizeOptions {
  std::string model;                 // folder, tokenizer.model or GGUF file
  bool no_special_tokens = false;    // without the special tokens around a text
  bool decode = false;               // lines are lists of ids and become texts
  bool skip_special_tokens = false;  // decoding leaves special tokens out
};

// Reads lines from `in` until its end and skips blank ones. Throws UserError (input) that names a wrong line;
// the lines before it are answered by then.
void tokenize(const Tokenizer& tokenizer, const TokenizeOptions& options, std::istream& in,
              std::ostream& out);

// Runs the command, from stdin to stdout.
void tokenize_command(const TokenizeOptions& options);

}  // namespace ft
