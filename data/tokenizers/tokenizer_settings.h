// Reads a model folder's settings of its tokenizer, without the vocabulary: tokenizer_config.json,
// special_tokens_map.json and added_tokens.json, in all forms that transformers has written.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/files/json.h"

namespace ft {

// A token that is found in the text before the text is tokenized, and never cut.
struct AddedToken {
  std::string content;
  std::optional<std::int32_t> id;  // none: the vocabulary's id, else the next free one
  bool special = false;            // decoding can skip it
  bool lstrip = false;             // removes white space before it
  bool rstrip = false;             // removes white space after it
  bool single_word = false;        // not matched inside a word
  bool normalized = false;         // searched in the normalized text, in its normalized form
};

// Names of the tokens with a role.
struct SpecialNames {
  std::optional<std::string> bos, eos, unk, pad;
};
inline const SpecialNames kLlamaNames{"<s>", "</s>", "<unk>", std::nullopt};

struct TokenizerSettings {
  std::string tokenizer_class;    // "" if no file names it
  std::vector<AddedToken> added;  // by id, then tokens without id
  bool added_with_flags = false;  // `added` comes from added_tokens_decoder, which sets all flags
  SpecialNames names;
  bool add_bos = true, add_eos = false;
  bool says_bos = false, says_eos = false;  // add_bos_token and add_eos_token are present
  bool add_prefix_space = true, says_prefix_space = false;
  bool legacy = true;     // as in LlamaTokenizer: every text between special tokens gets a prefix space
  bool clean_up = false;  // clean_up_tokenization_spaces, for decoding
  std::int64_t extra_ids = 100;  // T5's sentinels
};

// Returns the named special tokens of a tokenizer_config.json or special_tokens_map.json: (image_token,
// <image>). As in transformers these are all keys that end in _token, without bos, eos, unk and pad, and the
// objects extra_special_tokens and model_specific_special_tokens.
std::vector<std::pair<std::string, AddedToken>> own_special_tokens(const JsonObject& file);

// Absent switches get LlamaTokenizer's defaults. Absent special tokens get the class' defaults, or
// `otherwise` if the class is unknown. `more` tokens come last. Throws UserError (input) with file and key.
TokenizerSettings read_tokenizer_settings(const std::filesystem::path& folder,
                                          const SpecialNames& otherwise = kLlamaNames,
                                          const std::vector<AddedToken>& more = {});

}  // namespace ft
