// How a text is cut into the pieces that the vocabulary sees: `pre_tokenizer` of tokenizer.json.
#pragma once
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/regex.h"
#include "engine/files/json.h"

namespace ft {

// Pieces of a text. A step replaces them; what it changes it writes to a buffer of its own.
struct Pieces {
  struct Piece {
    std::string_view text;
    bool first = false;  // begins where the whole text begins
  };
  std::vector<Piece> list;
  std::deque<std::string> buffers;  // what pieces that were changed point into
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(Pieces& pieces) const = 0;
};

// The steps in their order; none when there is no such key. UserError (exit 3) for a type that is not
// known.
std::vector<std::unique_ptr<PreTokenizer>> read_pre_tokenizers(const JsonObject& tokenizer);

// GPT-2's pattern, which a ByteLevel without a pattern beside it uses.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// What becomes of the matches of a pattern. merged_*: a match joins the piece before or behind it;
// contiguous: matches in a row are one piece.
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

// Appends the pieces of `text`. `invert`: the stretches between matches take their role.
void split(std::string_view text, const Regex& pattern, SplitBehavior behavior, bool invert,
           std::vector<std::string_view>& pieces);

}  // namespace ft
