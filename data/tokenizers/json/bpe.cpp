#include "data/tokenizers/json/bpe.h"

#include <algorithm>
#include <array>
#include <queue>
#include <tuple>

#include "data/files/utf8.h"
#include "data/tokenizers/pair_map.h"
#include "data/tokenizers/word_cache.h"
#include "engine/core/error.h"

namespace ft {
namespace {

struct Merge {
  std::int32_t rank = 0, id = 0;
};

// The symbols of a word as a linked list: a merge removes the right symbol.
struct Symbol {
  std::int32_t id = 0;
  std::int32_t previous = -1, next = -1;  // indices, -1 at the ends
  bool gone = false;
};

// A pair that may be merged: the lowest rank comes first, then the leftmost.
struct Candidate {
  std::int32_t rank = 0, place = 0, id = 0;
  bool operator<(const Candidate& o) const { return std::tie(rank, place) > std::tie(o.rank, o.place); }
};

class Bpe : public TokenModel {
 public:
  Bpe(Vocabulary entries, const std::vector<std::pair<std::string, std::string>>& merges,
      const BpeOptions& options, const std::string& where)
      : TokenModel(std::move(entries)), options_(options), merges_(merges.size()) {
    const auto token = [&](const std::string& text) {
      if (const auto id = vocabulary().id(text)) return *id;
      throw UserError(Exit::input, str(where, ": a merge needs the token ", printable(text, 40),
                                       ", which is not in the vocabulary"));
    };
    for (std::size_t i = 0; i < merges.size(); ++i) {
      const auto& [left, right] = merges[i];
      // If a pair appears twice, the later rank counts.
      const std::int32_t a = token(left), b = token(right);
      merges_.at(key(a), key(b)) = {static_cast<std::int32_t>(i), token(left + right)};
    }
    characters_.fill(-1);
    for (const auto& [text, id] : vocabulary().ids()) {
      if (text.empty() || utf8_length(text, 0) != text.size()) continue;
      const char32_t c = utf8_code_point(text, 0);
      if (c < characters_.size()) characters_[c] = id;
    }
    for (std::size_t b = 0; b < bytes_.size(); ++b)
      bytes_[b] = vocabulary().id(byte_token(static_cast<unsigned char>(b))).value_or(-1);
    words_apart_ = !options_.ignore_merges && vocabulary().id(kMetaspace).has_value() &&
                   std::none_of(vocabulary().ids().begin(), vocabulary().ids().end(),
                                [](const auto& entry) { return space_after_other(entry.first); });
  }

  void encode(std::string_view piece, TokenIds& ids) const override {
    if (piece.empty()) return;
    if (options_.ignore_merges)
      if (const auto whole = vocabulary().id(piece)) return ids.push_back(*whole);
    if (!words_apart_) return encode_word(piece, ids);
    for (std::size_t begin = 0; begin < piece.size();) {
      std::size_t end = begin;
      while (piece.substr(end).starts_with(kMetaspace)) end += kMetaspace.size();
      end = std::min(piece.find(kMetaspace, end), piece.size());
      encode_word(piece.substr(begin, end - begin), ids);
      begin = end;
    }
  }

 private:
  static std::uint32_t key(std::int32_t id) { return static_cast<std::uint32_t>(id); }

  // Returns true if a token has the sign of a space after another character. Without such tokens no merge
  // crosses the border of two words, so that words can be encoded one by one.
  static bool space_after_other(std::string_view token) {
    while (token.starts_with(kMetaspace)) token.remove_prefix(kMetaspace.size());
    return token.find(kMetaspace) != std::string_view::npos;
  }

  void encode_word(std::string_view word, TokenIds& ids) const {
    if (word.size() > WordCache::kLongest) return merge(word, ids);
    if (cache_.find(word, ids)) return;
    TokenIds own;
    merge(word, own);
    ids.insert(ids.end(), own.begin(), own.end());
    cache_.put(word, std::move(own));
  }

  void merge(std::string_view word, TokenIds& ids) const {
    std::vector<Symbol> symbols = split(word);
    std::priority_queue<Candidate> queue;
    const auto consider = [&](std::int32_t left, std::int32_t right) {
      if (left < 0 || right < 0) return;
      const Merge* m = merges_.find(key(at(symbols, left).id), key(at(symbols, right).id));
      if (m) queue.push({m->rank, left, m->id});
    };
    for (std::int32_t i = 0; i + 1 < static_cast<std::int32_t>(symbols.size()); ++i) consider(i, i + 1);
    while (!queue.empty()) {
      const Candidate best = queue.top();
      queue.pop();
      Symbol& left = at(symbols, best.place);
      if (left.gone || left.next < 0) continue;
      Symbol& right = at(symbols, left.next);
      // The pair may have changed; then the new pair has another candidate in the queue.
      const Merge* m = merges_.find(key(left.id), key(right.id));
      if (!m || m->id != best.id) continue;
      left.id = best.id;
      left.next = right.next;
      right.gone = true;
      if (left.next >= 0) at(symbols, left.next).previous = best.place;
      consider(left.previous, best.place);
      consider(best.place, left.next);
    }
    for (const Symbol& s : symbols)
      if (!s.gone) ids.push_back(s.id);
  }

  static Symbol& at(std::vector<Symbol>& symbols, std::int32_t place) {
    return symbols[static_cast<std::size_t>(place)];
  }

  std::vector<Symbol> split(std::string_view word) const {
    std::vector<Symbol> symbols;
    symbols.reserve(word.size());
    const auto add = [&](std::int32_t id) {
      const auto place = static_cast<std::int32_t>(symbols.size());
      if (place > 0) symbols.back().next = place;
      symbols.push_back({id, place - 1, -1, false});
    };
    std::int32_t unknown = -1;  // seen, but not yet added
    const auto flush = [&] {
      if (unknown >= 0) add(unknown);
      unknown = -1;
    };
    for (std::size_t i = 0; i < word.size();) {
      const std::size_t n = std::max<std::size_t>(utf8_length(word, i), 1);
      const std::string_view c = word.substr(i, n);
      i += n;
      if (const std::int32_t id = character(c); id >= 0) {
        flush();
        add(id);
      } else if (options_.byte_fallback && has_bytes(c)) {
        // A pending unknown token comes after the bytes, as in the reference.
        for (const char b : c) add(bytes_[static_cast<unsigned char>(b)]);
      } else if (options_.unk_token) {
        if (!options_.fuse_unk) flush();
        unknown = unk();
      }
    }
    flush();
    return symbols;
  }

  std::int32_t character(std::string_view c) const {
    const char32_t point = utf8_code_point(c, 0);
    return point < characters_.size() ? characters_[point] : vocabulary().id(c).value_or(-1);
  }
  bool has_bytes(std::string_view c) const {
    return std::all_of(c.begin(), c.end(),
                       [&](char b) { return bytes_[static_cast<unsigned char>(b)] >= 0; });
  }
  std::int32_t unk() const {
    if (const auto id = vocabulary().id(*options_.unk_token)) return *id;
    throw UserError(Exit::input, str("the tokenizer's unk_token ", printable(*options_.unk_token, 40),
                                     " is not in its vocabulary, and the text has an unknown character"));
  }

  BpeOptions options_;
  PairMap<Merge> merges_;
  std::array<std::int32_t, 0x3400> characters_;  // ids of one-character tokens below U+3400; -1: none
  std::array<std::int32_t, 256> bytes_;          // ids of <0x00> and so on; -1: none
  bool words_apart_ = false;
  mutable WordCache cache_;
};

}  // namespace

std::unique_ptr<TokenModel> make_bpe(Vocabulary vocabulary,
                                     const std::vector<std::pair<std::string, std::string>>& merges,
                                     const BpeOptions& options, const std::string& where) {
  return std::make_unique<Bpe>(std::move(vocabulary), merges, options, where);
}

}  // namespace ft
