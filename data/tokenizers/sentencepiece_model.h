// Checks a SentencePiece model file before its library reads it. The file is a protobuf message from an
// untrusted source, and the library trusts its content; this code checks sizes, pieces and tables.
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
  bool unigram = true;   // false: BPE, or another kind
  std::string charsmap;  // table of normalizations (data/tokenizers/json/charsmap.h); empty: none
  // A space is added before a text; runs of spaces become one, and spaces at a text's ends are removed.
  bool add_dummy_prefix = true, remove_extra_whitespaces = true;
};

// Throws UserError (input), which names the file, if the bytes are not a valid model.
SentencePieceModel check_sentencepiece_model(std::string_view bytes, const std::string& file);

}  // namespace ft
