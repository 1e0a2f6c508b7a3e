// Caches the tokens of words, because most words of a text occur again. Several threads may use it; it never
// changes a result.
#pragma once
#include <array>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "data/tokenizers/json/token_model.h"

namespace ft {

class WordCache {
 public:
  static constexpr std::size_t kLongest = 64;  // bytes of the longest cached word

  // Appends the cached tokens; returns false if the word is not cached.
  bool find(std::string_view word, TokenIds& ids) const {
    const Shelf& shelf = shelves_[shelf_of(word)];
    const std::lock_guard lock(shelf.mutex);
    const auto it = shelf.words.find(word);
    if (it == shelf.words.end()) return false;
    ids.insert(ids.end(), it->second.begin(), it->second.end());
    return true;
  }
  void put(std::string_view word, TokenIds ids) {
    if (word.size() > kLongest) return;
    Shelf& shelf = shelves_[shelf_of(word)];
    const std::lock_guard lock(shelf.mutex);
    if (shelf.words.size() < kMost) shelf.words.try_emplace(std::string(word), std::move(ids));
  }

 private:
  static constexpr std::size_t kMost = 2048;  // words on a shelf
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view word) const { return std::hash<std::string_view>()(word); }
  };
  struct alignas(64) Shelf {
    mutable std::mutex mutex;
    std::unordered_map<std::string, TokenIds, Hash, std::equal_to<>> words;
  };
  static std::size_t shelf_of(std::string_view word) {
    const auto byte = [&](std::size_t i) { return std::size_t{static_cast<unsigned char>(word[i])}; };
    return word.empty() ? 0 : (7 * byte(word.size() / 2) + byte(word.size() - 1) + word.size()) % kShelves;
  }

  static constexpr std::size_t kShelves = 64;
  std::array<Shelf, kShelves> shelves_;
};

}  // namespace ft
