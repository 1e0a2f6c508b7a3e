// Byte pair encoding (Sennrich et al., https://aclanthology.org/P16-1162): begins with characters, and
// repeatedly merges the pair that was learned first.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/tokenizers/json/token_model.h"

namespace ft {

struct BpeOptions {
  std::optional<std::string> unk_token;  // none: unknown characters are skipped
  bool fuse_unk = false;                 // neighbouring unknown characters become one token
  bool byte_fallback = false;            // an unknown character becomes its bytes if all of them are tokens
  bool ignore_merges = false;            // a piece that is in the vocabulary is not cut further
};

// `merges` by rank, the first learned first. Throws UserError (input), which begins with `where`, if one of
// them is not a token.
std::unique_ptr<TokenModel> make_bpe(Vocabulary vocabulary,
                                     const std::vector<std::pair<std::string, std::string>>& merges,
                                     const BpeOptions& options, const std::string& where);

}  // namespace ft
