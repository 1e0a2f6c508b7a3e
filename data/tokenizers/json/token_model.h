// The part of a tokenizer with the vocabulary: converts pieces of text to ids.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ft {

using TokenIds = std::vector<std::int32_t>;
inline constexpr std::int64_t kEndOfIds = std::int64_t{1}
                                          << 24;  // one past the largest id that a file may give

// Maps texts to ids and back. Ids may have gaps. If a text has several ids, the last one counts.
class Vocabulary {
 public:
  Vocabulary() = default;
  // Throws UserError (input), which begins with `where`, for an id that occurs twice or is out of range.
  Vocabulary(std::vector<std::pair<std::string, std::int64_t>> entries, const std::string& where);
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;

  std::optional<std::int32_t> id(std::string_view text) const;
  const std::string* text(std::int32_t id) const;                                // null: no token has this id
  std::int64_t count() const { return count_; }                                  // number of entries
  std::int64_t end() const { return static_cast<std::int64_t>(texts_.size()); }  // one past the largest id
  const auto& ids() const { return ids_; }

 private:
  std::vector<std::optional<std::string>> texts_;           // by id
  std::unordered_map<std::string_view, std::int32_t> ids_;  // keys point into texts_
  std::int64_t count_ = 0;
};

class TokenModel {
 public:
  explicit TokenModel(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
  virtual ~TokenModel() = default;
  // Appends the tokens of a piece of UTF-8 text. Called from several threads.
  virtual void encode(std::string_view piece, TokenIds& ids) const = 0;
  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  Vocabulary vocabulary_;
};

// Returns a byte's name in vocabularies with byte fallback, such as "<0x0A>".
std::string byte_token(unsigned char byte);

}  // namespace ft
