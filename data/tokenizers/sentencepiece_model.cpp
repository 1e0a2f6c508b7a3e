#include "data/tokenizers/sentencepiece_model.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <unordered_set>

#include "data/files/utf8.h"
#include "data/tokenizers/json/charsmap.h"
#include "engine/core/error.h"

namespace ft {
namespace {

constexpr std::size_t kMostPieces = std::size_t{1} << 22, kLongestPiece = 4096;

struct Broken {
  std::string why;
};

// A message in protobuf's wire format: fields one after another, each with a number, a kind and a value.
class Message {
 public:
  explicit Message(std::string_view all) : rest_(all) {}

  int field = 0;
  std::uint64_t number = 0;  // for kinds 0 and 5
  std::string_view bytes;    // for kind 2

  bool next() {
    if (rest_.empty()) return false;
    const std::uint64_t key = varint();
    field = static_cast<int>(key >> 3 & 0xFFFFFF);
    bytes = {};
    kind_ = static_cast<int>(key & 7);
    if (field == 0) throw Broken{"a field without a number"};
    switch (kind_) {
      case 0:
        number = varint();
        return true;
      case 1:
        take(8);
        return true;
      case 2:
        bytes = take(varint());
        return true;
      case 5: {
        std::uint32_t word = 0;
        std::memcpy(&word, take(4).data(), 4);
        number = word;
        return true;
      }
      default:
        throw Broken{"a field of unknown type"};
    }
  }
  void expect(int kind) const {
    if (kind_ != kind) throw Broken{str("field ", field, " has another type")};
  }

 private:
  std::uint64_t varint() {
    std::uint64_t v = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      const auto c = static_cast<unsigned char>(take(1)[0]);
      v |= std::uint64_t{c & 0x7Fu} << (shift < 64 ? shift : 63);
      if (c < 0x80) return v;
    }
    throw Broken{"a number that does not end"};
  }
  std::string_view take(std::uint64_t n) {
    if (n > rest_.size())
      throw Broken{str("cut short: ", n, " bytes are announced and ", rest_.size(), " are left")};
    const std::string_view out = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return out;
  }

  std::string_view rest_;
  int kind_ = 0;
};

void check_table(std::string_view table) {
  if (table.empty()) return;
  try {
    Charsmap{table};
  } catch (const std::invalid_argument& broken) {
    throw Broken{str("the normalization table ", broken.what())};
  }
}

void read_normalizer(std::string_view bytes, SentencePieceModel& model) {
  for (Message m(bytes); m.next();) {
    if (m.field == 2) {
      m.expect(2);
      model.charsmap = m.bytes;
      check_table(m.bytes);
    } else if (m.field == 3 || m.field == 4) {
      m.expect(0);
      (m.field == 3 ? model.add_dummy_prefix : model.remove_extra_whitespaces) = m.number != 0;
    }
  }
}

void check_denormalizer(std::string_view bytes) {
  for (Message m(bytes); m.next();) {
    if (m.field != 2) continue;
    m.expect(2);
    if (!m.bytes.empty()) throw Broken{"it has denormalization rules, which ft does not support"};
  }
}

SentencePieceModel::Piece read_piece(std::string_view bytes, std::size_t id) {
  SentencePieceModel::Piece piece;
  for (Message m(bytes); m.next();) {
    if (m.field == 1) {
      m.expect(2);
      piece.text = m.bytes;
    } else if (m.field == 2) {
      m.expect(5);
      piece.score = std::bit_cast<float>(static_cast<std::uint32_t>(m.number));
    } else if (m.field == 3) {
      m.expect(0);
      if (m.number < 1 || m.number > 6) throw Broken{str("piece ", id, " has an unknown type")};
      piece.kind = static_cast<SentencePieceModel::Kind>(m.number);
    }
  }
  if (piece.text.empty()) throw Broken{str("piece ", id, " is empty")};
  if (piece.text.size() > kLongestPiece)
    throw Broken{str("piece ", id, " has ", piece.text.size(), " bytes")};
  if (!is_utf8(piece.text) || piece.text.find('\0') != std::string::npos)
    throw Broken{str("piece ", id, " is not UTF-8 text")};
  if (!std::isfinite(piece.score)) throw Broken{str("piece ", id, " has a score that is not finite")};
  return piece;
}

void check_pieces(const SentencePieceModel& model) {
  std::unordered_set<std::string_view> seen;
  std::size_t unknown = 0, bytes = 0;
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    const auto& piece = model.pieces[id];
    if (!seen.insert(piece.text).second)
      throw Broken{str("piece ", id, " (", printable(piece.text, 40), ") appears twice")};
    unknown += piece.kind == SentencePieceModel::Kind::unknown;
    bytes += piece.kind == SentencePieceModel::Kind::byte;
  }
  if (model.pieces.empty()) throw Broken{"it has no pieces"};
  if (unknown != 1) throw Broken{str("it has ", unknown, " unknown pieces instead of one")};
  if (model.byte_fallback && bytes != 256) throw Broken{str("it has ", bytes, " byte pieces instead of 256")};
}

SentencePieceModel read_model(std::string_view bytes) {
  SentencePieceModel model;
  if (bytes.empty()) throw Broken{"it is empty"};
  for (Message m(bytes); m.next();) {
    switch (m.field) {
      case 1:
        m.expect(2);
        if (model.pieces.size() == kMostPieces) throw Broken{"it has too many pieces"};
        model.pieces.push_back(read_piece(m.bytes, model.pieces.size()));
        break;
      case 2:
        m.expect(2);
        for (Message trainer(m.bytes); trainer.next();) {
          if (trainer.field == 35) model.byte_fallback = trainer.number != 0;
          if (trainer.field == 3) model.unigram = trainer.number == 1;
        }
        break;
      case 3:
        m.expect(2);
        read_normalizer(m.bytes, model);
        break;
      case 5:
        m.expect(2);
        check_denormalizer(m.bytes);
        break;
      default:
        break;
    }
  }
  check_pieces(model);
  return model;
}

}  // namespace

SentencePieceModel check_sentencepiece_model(std::string_view bytes, const std::string& file) {
  try {
    return read_model(bytes);
  } catch (const Broken& broken) {
    throw UserError(Exit::input, str(printable(file), ": not a valid SentencePiece model: ", broken.why));
  }
}

}  // namespace ft
