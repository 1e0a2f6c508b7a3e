// Byte pair encoding (Sennrich et al., https://aclanthology.org/P16-1162): characters, then the pair that was
// learned first is merged, again and again.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/tokenizers/token_model.h"

namespace ft {

struct BpeOptions {
  std::optional<std::string> unk_token;  // none: unknown characters are left out
  bool fuse_unk = false;                 // unknown characters in a row are one token
  bool byte_fallback = false;  // an unknown character becomes its bytes where all of them are tokens
  bool ignore_merges = false;  // a piece that is a token as a whole is that token
};

// `merges` by rank, the first learned first. UserError (exit 3) that begins with `where` when one of them is
// no token.
std::unique_ptr<TokenModel> make_bpe(Vocabulary vocabulary,
                                     const std::vector<std::pair<std::string, std::string>>& merges,
                                     const BpeOptions& options, const std::string& where);

}  // namespace ft
