// What a model folder says about its tokenizer beside the vocabulary itself: tokenizer_config.json,
// special_tokens_map.json and added_tokens.json, in all the forms that transformers has written.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ft {

// A token that is matched as a whole before the text is tokenized.
struct AddedToken {
  std::string content;
  std::optional<std::int32_t> id;  // none: the vocabulary's, else the next free one
  bool special = false;            // left out of decoded text when asked to
  bool lstrip = false;             // white space before it goes
  bool rstrip = false;             // white space after it goes
  bool single_word = false;        // not matched inside a word
};

struct TokenizerSettings {
  std::string tokenizer_class;    // "" when nothing says it
  std::vector<AddedToken> added;  // by id, then those without one
  std::optional<std::string> bos, eos, unk, pad;
  bool add_bos = true, add_eos = false;
  bool add_prefix_space = true;
  bool legacy = true;     // as LlamaTokenizer's: every text between special tokens gets its own prefix space
  bool clean_up = false;  // clean_up_tokenization_spaces, when decoding
};

// With LlamaTokenizer's defaults for what is not said. Throws a UserError (exit 3) naming file and key.
TokenizerSettings read_tokenizer_settings(const std::filesystem::path& folder);

}  // namespace ft
