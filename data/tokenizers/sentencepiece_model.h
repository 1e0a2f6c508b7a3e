// A look into a SentencePiece model file before its library sees it. The file is a protobuf message that
// anybody may have made, and the library trusts what is inside; here sizes, pieces and tables are checked.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ft {

struct SentencePieceModel {
  enum class Kind : std::uint8_t {
    normal = 1,
    unknown = 2,
    control = 3,
    user_defined = 4,
    unused = 5,
    byte = 6
  };
  struct Piece {
    std::string text;
    float score = 0;
    Kind kind = Kind::normal;
  };

  std::vector<Piece> pieces;  // the index is the id
  bool byte_fallback = false;
  bool unigram = true;   // else BPE, or another kind
  std::string charsmap;  // the table of normalizations (data/tokenizers/charsmap.h); empty: none
  // A text gets a space in front; runs of spaces become one, and those around a text none.
  bool add_dummy_prefix = true, remove_extra_whitespaces = true;
};

// Throws a UserError (exit 3) that names the file when the bytes are no sound model.
SentencePieceModel check_sentencepiece_model(std::string_view bytes, const std::string& file);

}  // namespace ft
