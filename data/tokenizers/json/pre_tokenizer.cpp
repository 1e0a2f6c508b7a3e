#include "data/tokenizers/json/pre_tokenizer.h"

#include "data/files/utf8.h"
#include "data/tokenizers/json/byte_level.h"
#include "data/tokenizers/json/metaspace.h"
#include "data/tokenizers/patterns.h"

namespace ft {
namespace {

using Piece = Pieces::Piece;

// Splits every piece.
void split_all(Pieces& pieces, const Regex& pattern, SplitBehavior behavior, bool invert) {
  std::vector<Piece> cut;
  std::vector<std::string_view> parts;
  for (const Piece& piece : pieces.list) {
    parts.clear();
    split(piece.text, pattern, behavior, invert, parts);
    for (const std::string_view part : parts)
      cut.push_back({part, piece.first && part.data() == piece.text.data()});
  }
  pieces.list = std::move(cut);
}

// Rewrites every piece: change(piece, buffer) appends the new text.
template <class Change>
void rewrite_all(Pieces& pieces, const Change& change) {
  std::string& buffer = pieces.buffers.emplace_back();
  std::vector<std::size_t> ends;
  for (const Piece& piece : pieces.list) {
    change(piece, buffer);
    ends.push_back(buffer.size());
  }
  std::size_t begin = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    pieces.list[i].text = std::string_view(buffer).substr(begin, ends[i] - begin);
    begin = ends[i];
  }
}

class Split : public PreTokenizer {
 public:
  Split(Regex pattern, SplitBehavior behavior, bool invert = false)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}
  void apply(Pieces& pieces) const override { split_all(pieces, pattern_, behavior_, invert_); }

 private:
  Regex pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

class ByteLevel : public PreTokenizer {
 public:
  ByteLevel(bool prefix_space, bool use_regex)
      : prefix_space_(prefix_space), use_regex_(use_regex), pattern_(Regex::oniguruma(kGpt2Pattern, "")) {}

  void apply(Pieces& pieces) const override {
    if (prefix_space_)
      rewrite_all(pieces, [](const Piece& piece, std::string& to) {
        if (!piece.text.starts_with(' ')) to += ' ';
        to += piece.text;
      });
    if (use_regex_) split_all(pieces, pattern_, SplitBehavior::isolated, false);
    rewrite_all(pieces, [](const Piece& piece, std::string& to) { append_byte_level(piece.text, to); });
  }

 private:
  bool prefix_space_, use_regex_;
  Regex pattern_;
};

class MetaspaceSplit : public PreTokenizer {
 public:
  MetaspaceSplit(Metaspace settings, bool split)
      : settings_(std::move(settings)), split_(split), pattern_(Regex::literal(settings_.replacement)) {}

  void apply(Pieces& pieces) const override {
    rewrite_all(pieces, [&](const Piece& piece, std::string& to) {
      const bool spaced = piece.text.starts_with(' ') || piece.text.starts_with(settings_.replacement);
      const bool wanted = settings_.prepend == Metaspace::Prepend::always ||
                          (settings_.prepend == Metaspace::Prepend::first && piece.first);
      if (wanted && !spaced) to += settings_.replacement;
      to += replaced(piece.text, " ", settings_.replacement);
    });
    if (split_) split_all(pieces, pattern_, SplitBehavior::merged_with_next, false);
  }

 private:
  Metaspace settings_;
  bool split_;
  Regex pattern_;
};

SplitBehavior read_behavior(const JsonObject& object, const char* fallback) {
  const std::string name = object.text_or("behavior", fallback);
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  object.refuse("behavior", "one of Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous");
}

void add(const JsonObject& object, std::vector<std::unique_ptr<PreTokenizer>>& to) {
  const std::string type = object.text("type");
  const auto split_at = [&](const std::string& pattern, SplitBehavior behavior, bool invert = false) {
    to.push_back(std::make_unique<Split>(Regex(pattern), behavior, invert));
  };
  if (type == "Sequence") {
    for (const JsonObject& part : object.objects("pretokenizers")) add(part, to);
  } else if (type == "Split") {
    to.push_back(std::make_unique<Split>(read_pattern(object, "pattern"), read_behavior(object, ""),
                                         object.boolean_or("invert", false)));
  } else if (type == "ByteLevel") {
    to.push_back(std::make_unique<ByteLevel>(object.boolean_or("add_prefix_space", true),
                                             object.boolean_or("use_regex", true)));
  } else if (type == "Metaspace") {
    to.push_back(std::make_unique<MetaspaceSplit>(read_metaspace(object), object.boolean_or("split", true)));
  } else if (type == "Digits") {
    split_at("\\p{N}", object.boolean_or("individual_digits", false) ? SplitBehavior::isolated
                                                                     : SplitBehavior::contiguous);
  } else if (type == "WhitespaceSplit") {
    split_at(std::string(kSpacePattern), SplitBehavior::removed);
  } else if (type == "Whitespace") {
    split_at(str(kWordPattern, "+|(?:(?!", kWordPattern, "|", kSpacePattern, ")(?s:.))+"),
             SplitBehavior::removed, true);
  } else if (type == "Punctuation") {
    split_at("[!-/:-@\\[-`{-~\\p{P}]", read_behavior(object, "Isolated"));
  } else {
    object.refuse("type",
                  "one of Split, ByteLevel, Metaspace, Digits, Punctuation, Whitespace, WhitespaceSplit, "
                  "Sequence: ft knows these pre-tokenizers");
  }
}

}  // namespace

std::vector<std::unique_ptr<PreTokenizer>> read_pre_tokenizers(const JsonObject& tokenizer) {
  std::vector<std::unique_ptr<PreTokenizer>> all;
  if (tokenizer.has("pre_tokenizer")) add(tokenizer.object("pre_tokenizer"), all);
  return all;
}

}  // namespace ft
