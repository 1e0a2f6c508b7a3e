#include "data/tokenizers/json/json_tokenizer.h"

#include <algorithm>
#include <unordered_set>

#include "data/files/utf8.h"
#include "data/tokenizers/clean_up.h"
#include "data/tokenizers/json/added_tokens.h"
#include "data/tokenizers/json/pipeline.h"
#include "engine/core/error.h"

namespace ft {
namespace {

class JsonTokenizer : public Tokenizer {
 public:
  JsonTokenizer(Pipeline parts, const TokenizerSettings& settings)
      : parts_(std::move(parts)), clean_up_(settings.clean_up && !parts_.bpe) {
    for (const AddedToken& t : settings.added) {
      // Flags of the configuration count if it gives them; a mere name changes nothing.
      if (!parts_.has_added(t.content) || (settings.added_with_flags && t.id)) parts_.add(t);
    }
    share_out();
    size_ = parts_.model->vocabulary().end();
    for (const AddedToken& t : parts_.added) size_ = std::max<std::int64_t>(size_, *t.id + 1);
    bos_ = named(settings.names.bos);
    eos_ = named(settings.names.eos);
    pad_ = named(settings.names.pad);
    unk_ = named(settings.names.unk);
    set_frame(settings);
  }

  Ids encode(std::string_view text) const override {
    if (!is_utf8(text)) throw UserError(Exit::input, "a text is not UTF-8: " + printable(text, 60));
    Ids ids;
    for (const AddedTokens::Part& part : plain_.split(text)) {
      if (part.id >= 0)
        ids.push_back(part.id);
      else
        encode_part(part.text, part.text.data() == text.data(), ids);
    }
    return ids;
  }

  std::string decode(std::span<const std::int32_t> ids, bool skip_special_tokens) const override {
    std::vector<std::string> tokens;
    for (const std::int32_t id : ids) {
      const std::string* text = shown(id);
      if (text && !(skip_special_tokens && special_.contains(*text))) tokens.push_back(*text);
    }
    for (const auto& step : parts_.decoders) step->apply(tokens);
    std::string text;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0 && parts_.decoders.empty()) text += ' ';
      text += tokens[i];
    }
    return clean_up_ ? cleaned_up(std::move(text)) : text;
  }

  Ids prefix() const override { return prefix_; }
  Ids suffix() const override { return suffix_; }

  std::int64_t size() const override { return size_; }
  std::string token(std::int32_t id) const override {
    if (const AddedToken* added = all_.find(id)) return added->content;
    const std::string* text = parts_.model->vocabulary().text(id);
    return text ? *text : "";
  }
  bool is_special(std::int32_t id) const override {
    const std::string* text = shown(id);
    return text && special_.contains(*text);
  }
  std::optional<std::int32_t> id(std::string_view token) const override {
    if (const AddedToken* added = all_.find(token)) return added->id;
    return parts_.model->vocabulary().id(token);
  }

  std::optional<std::int32_t> bos() const override { return bos_; }
  std::optional<std::int32_t> eos() const override { return eos_; }
  std::optional<std::int32_t> pad() const override { return pad_; }
  std::optional<std::int32_t> unk() const override { return unk_; }

 private:
  // Sorts the added tokens: some are searched in the text, others in the normalized text.
  void share_out() {
    std::vector<AddedToken> plain, normalized;
    for (const AddedToken& t : parts_.added) {
      if (t.special) special_.insert(t.content);
      if (!t.normalized) {
        plain.push_back(t);
        continue;
      }
      AddedToken other = t;
      normalize(other.content);
      if (other.content != t.content) shown_[*t.id] = other.content;
      if (!other.content.empty()) normalized.push_back(std::move(other));
    }
    plain_ = AddedTokens(std::move(plain));
    normalized_ = AddedTokens(std::move(normalized));
    all_ = AddedTokens(parts_.added);
  }

  // Sets the tokens around a text: by the configuration if it tells, else by the post-processor.
  void set_frame(const TokenizerSettings& settings) {
    const bool t5 = settings.tokenizer_class.starts_with("T5");  // always has its own post-processor
    if ((settings.says_bos || settings.says_eos) && !t5) {
      if (settings.says_bos && settings.add_bos && bos_) prefix_ = {*bos_};
      if (settings.add_eos && eos_) suffix_ = {*eos_};
      return;
    }
    const auto ids_of = [&](const std::vector<std::string>& tokens) {
      Ids ids;
      for (const std::string& token : tokens) {
        if (!id(token))
          throw UserError(Exit::input, str(printable(parts_.file), ": post_processor needs the token ",
                                           printable(token, 40), ", which is not in the vocabulary"));
        ids.push_back(*id(token));
      }
      return ids;
    };
    prefix_ = ids_of(parts_.prefix);
    suffix_ = ids_of(parts_.suffix);
  }

  void normalize(std::string& text) const {
    for (const auto& step : parts_.normalizers) step->apply(text);
  }

  void encode_part(std::string_view part, bool first, Ids& ids) const {
    std::string text(part);
    normalize(text);
    for (const AddedTokens::Part& inner : normalized_.split(text)) {
      if (inner.id >= 0) {
        ids.push_back(inner.id);
        continue;
      }
      Pieces pieces;
      pieces.list.push_back({inner.text, first && inner.text.data() == text.data()});
      for (const auto& step : parts_.pre_tokenizers) step->apply(pieces);
      for (const Pieces::Piece& piece : pieces.list) parts_.model->encode(piece.text, ids);
    }
  }

  // Returns the token's text as decoders see it; null: no token has this id.
  const std::string* shown(std::int32_t id) const {
    if (const auto it = shown_.find(id); it != shown_.end()) return &it->second;
    if (const AddedToken* added = all_.find(id)) return &added->content;
    return parts_.model->vocabulary().text(id);
  }
  std::optional<std::int32_t> named(const std::optional<std::string>& name) const {
    return name ? id(*name) : std::nullopt;
  }

  Pipeline parts_;
  bool clean_up_;
  AddedTokens plain_, normalized_, all_;
  std::unordered_set<std::string> special_;  // their texts
  std::unordered_map<std::int32_t, std::string>
      shown_;  // by id: normalized texts of added tokens, if they differ
  std::int64_t size_ = 0;
  std::optional<std::int32_t> bos_, eos_, pad_, unk_;
  Ids prefix_, suffix_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_json_tokenizer(const std::filesystem::path& file,
                                               const std::vector<AddedToken>& more) {
  return std::make_unique<JsonTokenizer>(read_tokenizer_json(file),
                                         read_tokenizer_settings(file.parent_path(), {}, more));
}

std::unique_ptr<Tokenizer> make_vocab_tokenizer(const std::filesystem::path& file,
                                                const std::vector<AddedToken>& more) {
  const TokenizerSettings settings = read_tokenizer_settings(
      file.parent_path(), {"<|endoftext|>", "<|endoftext|>", "<|endoftext|>", {}}, more);
  return std::make_unique<JsonTokenizer>(read_vocab_and_merges(file, settings), settings);
}

std::unique_ptr<Tokenizer> make_t5_tokenizer(const std::filesystem::path& file,
                                             const std::vector<AddedToken>& more) {
  TokenizerSettings settings =
      read_tokenizer_settings(file.parent_path(), {std::nullopt, "</s>", "<unk>", "<pad>"}, more);
  settings.tokenizer_class = "T5Tokenizer";
  return std::make_unique<JsonTokenizer>(read_t5_model(file, settings), settings);
}

}  // namespace ft
