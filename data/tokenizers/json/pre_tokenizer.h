// Cuts a text into the pieces that the vocabulary sees: `pre_tokenizer` of tokenizer.json.
#pragma once
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/regex.h"
#include "engine/files/json.h"

namespace ft {

// Pieces of a text. A step replaces them, and writes changed pieces to a new buffer.
struct Pieces {
  struct Piece {
    std::string_view text;
    bool first = false;  // the complete text begins with it
  };
  std::vector<Piece> list;
  std::deque<std::string> buffers;  // hold the texts of changed pieces
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(Pieces& pieces) const = 0;
};

// Returns the steps in their order; none if the key is absent. Throws UserError (input) for an unknown type.
std::vector<std::unique_ptr<PreTokenizer>> read_pre_tokenizers(const JsonObject& tokenizer);

// GPT-2's pattern, used by a ByteLevel without a pattern.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Treatment of a pattern's matches. merged_*: a match joins the piece before or after it; contiguous:
// neighbouring matches become one piece.
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

// Appends the pieces of `text`. `invert`: the text between matches takes the matches' role.
void split(std::string_view text, const Regex& pattern, SplitBehavior behavior, bool invert,
           std::vector<std::string_view>& pieces);

}  // namespace ft
