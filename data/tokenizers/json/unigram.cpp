#include "data/tokenizers/json/unigram.h"

#include <algorithm>
#include <limits>

#include "data/files/utf8.h"
#include "data/tokenizers/pair_map.h"
#include "data/tokenizers/word_cache.h"
#include "engine/core/error.h"

namespace ft {
namespace {

constexpr double kUnknownPenalty = 10;  // amount below the lowest score, as in SentencePiece

Vocabulary vocabulary_of(const std::vector<std::pair<std::string, double>>& pieces,
                         const std::string& where) {
  std::vector<std::pair<std::string, std::int64_t>> entries;
  for (const auto& [text, _] : pieces) entries.emplace_back(text, static_cast<std::int64_t>(entries.size()));
  return {std::move(entries), where};
}

class Unigram : public TokenModel {
 public:
  Unigram(const std::vector<std::pair<std::string, double>>& pieces, std::optional<std::int64_t> unk_id,
          bool byte_fallback, const std::string& where)
      : TokenModel(vocabulary_of(pieces, where)), byte_fallback_(byte_fallback) {
    double lowest = std::numeric_limits<double>::infinity();
    for (const auto& [text, score] : pieces) {
      lowest = std::min(lowest, score);
      add(text, static_cast<std::int32_t>(scores_.size()));
      scores_.push_back(score);
    }
    unknown_score_ = lowest - kUnknownPenalty;
    if (unk_id) {
      if (*unk_id < 0 || *unk_id >= vocabulary().end())
        throw UserError(Exit::input,
                        str(where, ": unk_id is ", *unk_id, "; there are ", vocabulary().end(), " pieces"));
      unk_ = static_cast<std::int32_t>(*unk_id);
    }
  }

  void encode(std::string_view piece, TokenIds& ids) const override {
    if (piece.empty() || (piece.size() <= WordCache::kLongest && cache_.find(piece, ids))) return;
    TokenIds own;
    best_path(piece, own);
    ids.insert(ids.end(), own.begin(), own.end());
    cache_.put(piece, std::move(own));
  }

 private:
  // The best way to a position in the text: its last token, and that token's beginning.
  struct Step {
    double score = 0;
    std::int32_t id = -1;
    std::ptrdiff_t from = -1;
  };
  struct Node {
    std::uint32_t number = 0;  // the node's number, part of the key of its steps
    std::int32_t id = -1;      // the piece that ends here
  };

  void add(const std::string& text, std::int32_t id) {
    if (text.empty()) return;
    std::uint32_t node = 0;
    for (const char c : text) {
      Node& next = trie_.at(node, static_cast<unsigned char>(c));
      if (next.number == 0) next.number = ++nodes_;
      node = next.number;
    }
    Node& last = trie_.at(parent_of(text), static_cast<unsigned char>(text.back()));
    last.id = id;
  }
  std::uint32_t parent_of(const std::string& text) const {
    std::uint32_t node = 0;
    for (std::size_t i = 0; i + 1 < text.size(); ++i)
      node = trie_.find(node, static_cast<unsigned char>(text[i]))->number;
    return node;
  }

  void best_path(std::string_view text, TokenIds& ids) const {
    std::vector<Step> best(text.size() + 1);
    const auto offer = [&](std::size_t begin, std::size_t end, double score, std::int32_t id) {
      Step& step = best[end];
      if (step.from >= 0 && score <= step.score) return;
      step = {score, id, static_cast<std::ptrdiff_t>(begin)};
    };
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t n = std::max<std::size_t>(utf8_length(text, begin), 1);
      bool single = false;  // a piece of one character was found
      std::uint32_t node = 0;
      for (std::size_t end = begin; end < text.size();) {
        const Node* next = trie_.find(node, static_cast<unsigned char>(text[end]));
        if (!next) break;
        node = next->number;
        ++end;
        if (next->id < 0) continue;
        offer(begin, end, scores_[static_cast<std::size_t>(next->id)] + best[begin].score, next->id);
        single = single || end - begin == n;
      }
      if (!single) offer(begin, begin + n, unknown_score_ + best[begin].score, unknown());
      begin += n;
    }
    collect(text, best, ids);
  }

  // Reads the result from the end to the beginning; neighbouring unknown pieces are joined.
  void collect(std::string_view text, const std::vector<Step>& best, TokenIds& ids) const {
    const auto first = ids.size();
    std::size_t end = text.size();
    while (end > 0) {
      std::size_t begin = static_cast<std::size_t>(best[end].from);
      const std::int32_t id = best[end].id;
      if (id == unk_)
        while (begin > 0 && best[begin].id == unk_) begin = static_cast<std::size_t>(best[begin].from);
      add_backwards(text.substr(begin, end - begin), id, ids);
      end = begin;
    }
    std::reverse(ids.begin() + static_cast<std::ptrdiff_t>(first), ids.end());
  }
  void add_backwards(std::string_view piece, std::int32_t id, TokenIds& ids) const {
    if (id != unk_) return ids.push_back(id);
    // Unknown characters together may be a token's text, such as <unk>.
    if (const auto known = vocabulary().id(piece)) return ids.push_back(*known);
    TokenIds bytes;
    for (const char b : piece)
      if (const auto byte = vocabulary().id(byte_token(static_cast<unsigned char>(b))))
        bytes.push_back(*byte);
    if (byte_fallback_ && bytes.size() == piece.size())
      ids.insert(ids.end(), bytes.rbegin(), bytes.rend());
    else
      ids.push_back(id);
  }
  std::int32_t unknown() const {
    if (unk_ < 0)
      throw UserError(Exit::input,
                      "the text has a character that is not in the tokenizer's vocabulary, and it "
                      "has no unk_id");
    return unk_;
  }

  bool byte_fallback_;
  double unknown_score_ = 0;
  std::int32_t unk_ = -1;
  std::vector<double> scores_;  // by id
  PairMap<Node> trie_;          // (node, byte) -> node; the root is 0
  std::uint32_t nodes_ = 0;
  mutable WordCache cache_;
};

}  // namespace

std::unique_ptr<TokenModel> make_unigram(const std::vector<std::pair<std::string, double>>& pieces,
                                         std::optional<std::int64_t> unk_id, bool byte_fallback,
                                         const std::string& where) {
  return std::make_unique<Unigram>(pieces, unk_id, byte_fallback, where);
}

}  // namespace ft
