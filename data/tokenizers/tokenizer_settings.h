// What a model folder says about its tokenizer beside the vocabulary itself: tokenizer_config.json,
// special_tokens_map.json and added_tokens.json, in all the forms that transformers has written.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/files/json.h"

namespace ft {

// A token that is matched as a whole before the text is tokenized.
struct AddedToken {
  std::string content;
  std::optional<std::int32_t> id;  // none: the vocabulary's, else the next free one
  bool special = false;            // left out of decoded text when asked to
  bool lstrip = false;             // white space before it goes
  bool rstrip = false;             // white space after it goes
  bool single_word = false;        // not matched inside a word
  bool normalized = false;         // looked for in the normalized text, in its own normal form
};

// Names of tokens with a role.
struct SpecialNames {
  std::optional<std::string> bos, eos, unk, pad;
};
inline const SpecialNames kLlamaNames{"<s>", "</s>", "<unk>", std::nullopt};

struct TokenizerSettings {
  std::string tokenizer_class;    // "" when nothing says it
  std::vector<AddedToken> added;  // by id, then those without one
  bool added_with_flags = false;  // `added` comes from added_tokens_decoder, which says all flags
  SpecialNames names;
  bool add_bos = true, add_eos = false;
  bool says_bos = false, says_eos = false;  // whether add_bos_token and add_eos_token are present
  bool add_prefix_space = true, says_prefix_space = false;
  bool legacy = true;     // as LlamaTokenizer's: every text between special tokens gets its own prefix space
  bool clean_up = false;  // clean_up_tokenization_spaces, when decoding
  std::int64_t extra_ids = 100;  // T5's sentinels
};

// Named special tokens of a tokenizer_config.json or special_tokens_map.json: (image_token, <image>). As in
// transformers these are keys that end in _token, except those of bos, eos, unk and pad, and the objects
// extra_special_tokens and model_specific_special_tokens.
std::vector<std::pair<std::string, AddedToken>> own_special_tokens(const JsonObject& file);

// With LlamaTokenizer's defaults for switches that are not said; special tokens that are not named are those
// of the class, and of a class that is not known `otherwise`. `more` come last. Throws a UserError (exit 3)
// naming file and key.
TokenizerSettings read_tokenizer_settings(const std::filesystem::path& folder,
                                          const SpecialNames& otherwise = kLlamaNames,
                                          const std::vector<AddedToken>& more = {});

}  // namespace ft
