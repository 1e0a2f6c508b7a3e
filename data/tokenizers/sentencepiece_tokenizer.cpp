#include "data/tokenizers/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <optional>

#include "data/files/utf8.h"
#include "data/tokenizers/clean_up.h"
#include "data/tokenizers/json/added_tokens.h"
#include "data/tokenizers/sentencepiece_model.h"
#include "data/tokenizers/tokenizer_settings.h"
#include "engine/core/error.h"
#include "engine/files/file.h"

namespace ft {
namespace {

constexpr std::int64_t kLargestFile = std::int64_t{256} << 20;
// Appended to a serialized model, this sets normalizer_spec.add_dummy_prefix to false, because protobuf
// merges a message that occurs twice.
constexpr std::string_view kNoDummyPrefix("\x1A\x02\x18\x00", 4);

class LlamaTokenizer : public Tokenizer {
 public:
  LlamaTokenizer(const std::string& file, std::string bytes, const TokenizerSettings& settings)
      : settings_(settings), model_(check_sentencepiece_model(bytes, file)) {
    // The library's prefix space is the legacy rule; with the new rule encode() adds it once.
    if (!settings_.legacy || !settings_.add_prefix_space) bytes += kNoDummyPrefix;
    const auto status = processor_.LoadFromSerializedProto(bytes);
    if (!status.ok())
      throw UserError(Exit::input,
                      str(printable(file), ": SentencePiece refuses it: ", printable(status.ToString())));
    const auto pieces = static_cast<std::int32_t>(model_.pieces.size());
    std::int32_t next = pieces;
    for (const AddedToken& t : settings_.added) next = std::max(next, t.id.value_or(-1) + 1);
    for (AddedToken& t : settings_.added) {
      if (!t.id) t.id = piece_id(t.content);
      if (!t.id) t.id = next++;
    }
    added_ = AddedTokens(settings_.added);
    size_ = std::max(pieces, next);
    bos_ = named(settings_.names.bos);
    eos_ = named(settings_.names.eos);
    pad_ = named(settings_.names.pad);
    unk_ = named(settings_.names.unk);
    unk_prefix_ = processor_.EncodeAsIds(unk_text()).size();
    if (settings_.add_bos && !bos_)
      throw UserError(Exit::input, "tokenizer_config.json: add_bos_token is true, but there is no bos_token");
    if (settings_.add_eos && !eos_)
      throw UserError(Exit::input, "tokenizer_config.json: add_eos_token is true, but there is no eos_token");
  }

  Ids encode(std::string_view text) const override {
    Ids ids;
    for (const AddedTokens::Part& part : added_.split(text)) {
      const bool first = part.text.data() == text.data();
      if (part.id >= 0)
        ids.push_back(part.id);
      else if (settings_.legacy)
        append(processor_.EncodeAsIds({part.text.data(), part.text.size()}), 0, ids);
      else
        encode_new(replaced(part.text, " ", kMetaspace), first, ids);
    }
    return ids;
  }

  std::string decode(std::span<const std::int32_t> ids, bool skip_special_tokens) const override {
    std::string text, bytes;  // bytes: a run of byte pieces
    const auto flush = [&] {
      if (is_utf8(bytes))
        text += bytes;
      else
        for (std::size_t i = 0; i < bytes.size(); ++i) text += kReplacement;
      bytes.clear();
    };
    for (const std::int32_t id : ids) {
      if (token(id).empty() || (skip_special_tokens && is_special(id))) continue;
      if (is_byte(id)) {
        bytes += static_cast<char>(std::stoi(token(id).substr(3, 2), nullptr, 16));  // <0x0A>
        continue;
      }
      flush();
      text += replaced(token(id), kMetaspace, " ");
    }
    flush();
    if (settings_.add_prefix_space && text.starts_with(' ')) text.erase(0, 1);
    return settings_.clean_up ? cleaned_up(std::move(text)) : text;
  }

  Ids prefix() const override { return settings_.add_bos ? Ids{*bos_} : Ids{}; }
  Ids suffix() const override { return settings_.add_eos ? Ids{*eos_} : Ids{}; }

  std::int64_t size() const override { return size_; }
  std::string token(std::int32_t id) const override {
    if (const AddedToken* added = added_.find(id)) return added->content;
    return is_piece(id) ? piece(id).text : "";
  }
  bool is_special(std::int32_t id) const override {
    const AddedToken* added = added_.find(id);
    return added && added->special;
  }
  std::optional<std::int32_t> id(std::string_view token) const override {
    if (const AddedToken* added = added_.find(token)) return added->id;
    return piece_id(token);
  }

  std::optional<std::int32_t> bos() const override { return bos_; }
  std::optional<std::int32_t> eos() const override { return eos_; }
  std::optional<std::int32_t> pad() const override { return pad_; }
  std::optional<std::int32_t> unk() const override { return unk_; }

 private:
  using Kind = SentencePieceModel::Kind;

  // Encodes by the rule since transformers 4.31: one prefix space at the beginning of the text if it has
  // none.
  void encode_new(std::string text, bool first, Ids& out) const {
    const bool spaced = text.starts_with(kMetaspace);
    if (first && settings_.add_prefix_space && !spaced) text.insert(0, kMetaspace);
    if (!text.starts_with(kMetaspace)) return append(processor_.EncodeAsIds(text), 0, out);
    // The library may remove a space at the beginning of a text, so the text is encoded after another token.
    append(processor_.EncodeAsIds(unk_text() + text), unk_prefix_, out);
  }
  static void append(const std::vector<int>& ids, std::size_t skip, Ids& out) {
    out.insert(out.end(), ids.begin() + static_cast<std::ptrdiff_t>(std::min(skip, ids.size())), ids.end());
  }

  std::string unk_text() const { return settings_.names.unk.value_or("<unk>"); }
  bool is_piece(std::int32_t id) const {
    return id >= 0 && id < static_cast<std::int32_t>(model_.pieces.size());
  }
  const SentencePieceModel::Piece& piece(std::int32_t id) const {
    return model_.pieces[static_cast<std::size_t>(id)];
  }
  bool is_byte(std::int32_t id) const {
    return is_piece(id) && piece(id).kind == Kind::byte && !added_.find(id);
  }
  std::optional<std::int32_t> piece_id(std::string_view text) const {
    const int id = processor_.PieceToId({text.data(), text.size()});
    if (is_piece(id) && piece(id).text == text) return id;
    return std::nullopt;
  }
  std::optional<std::int32_t> named(const std::optional<std::string>& name) const {
    return name ? id(*name) : std::nullopt;
  }

  TokenizerSettings settings_;
  SentencePieceModel model_;
  sentencepiece::SentencePieceProcessor processor_;
  AddedTokens added_;
  std::int32_t size_ = 0;
  std::optional<std::int32_t> bos_, eos_, pad_, unk_;
  std::size_t unk_prefix_ = 0;  // number of tokens of unk_text()
};

}  // namespace

std::unique_ptr<Tokenizer> make_llama_tokenizer(const std::filesystem::path& file,
                                                const std::vector<AddedToken>& more) {
  return std::make_unique<LlamaTokenizer>(file.string(), read_file(file.string(), kLargestFile),
                                          read_tokenizer_settings(file.parent_path(), kLlamaNames, more));
}

}  // namespace ft
