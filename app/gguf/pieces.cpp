// Writes SentencePiece's pieces and scores as GGUF's keys, from its model file or from a unigram in
// tokenizer.json.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/gguf/vocabulary.h"
#include "data/tokenizers/json/normalizer.h"
#include "data/tokenizers/sentencepiece_model.h"
#include "engine/files/json.h"

namespace ft {
namespace {

// Changes that a unigram tokenizer makes to a text before it splits it into pieces.
struct Preparation {
  bool space_prefix = false, squeeze_spaces = false;
  std::string charsmap;
};

GgufKeys keys_of_pieces(const char* model, GgufVocabulary v) {
  return {{"tokenizer.ggml.model", std::string(model)},
          {"tokenizer.ggml.pre", std::string("default")},
          {"tokenizer.ggml.tokens", std::move(v.tokens)},
          {"tokenizer.ggml.scores", std::move(v.scores)},
          {"tokenizer.ggml.token_type", std::move(v.types)}};
}

// Readers put a space before a text unless they are told not to: Gemma's texts have none.
GgufKeys keys_of_bpe(GgufVocabulary v, const Tokenizer& tokenizer) {
  GgufKeys keys = keys_of_pieces("llama", std::move(v));
  const Tokenizer::Ids ids = tokenizer.encode("x");
  if (!ids.empty() && !tokenizer.token(ids.front()).starts_with("\u2581"))
    keys.emplace_back("tokenizer.ggml.add_space_prefix", false);
  return keys;
}

GgufKeys keys_of_unigram(GgufVocabulary v, const Preparation& p) {
  GgufKeys keys = keys_of_pieces("t5", std::move(v));
  keys.emplace_back("tokenizer.ggml.add_space_prefix", p.space_prefix);
  keys.emplace_back("tokenizer.ggml.remove_extra_whitespaces", p.squeeze_spaces);
  if (!p.charsmap.empty())
    keys.emplace_back("tokenizer.ggml.precompiled_charsmap",
                      std::vector<std::uint8_t>(p.charsmap.begin(), p.charsmap.end()));
  return keys;
}

// Adds added tokens, and pads the vocabulary to the model's size.
void complete(GgufVocabulary& v, const Tokenizer& tokenizer, std::int64_t vocab_size,
              const std::string& file) {
  for (std::int64_t id = 0; id < tokenizer.size(); ++id) {
    const auto at = static_cast<std::size_t>(id);
    const std::string token = tokenizer.token(static_cast<std::int32_t>(id));
    if (token.empty() || (at < v.tokens.size() && v.tokens[at] == token)) continue;
    const bool special = tokenizer.is_special(static_cast<std::int32_t>(id));
    v.set(at, token, special ? GgufVocabulary::kControl : GgufVocabulary::kUserDefined);
  }
  if (static_cast<std::int64_t>(v.tokens.size()) > vocab_size)
    throw UserError(Exit::input, str(printable(file), ": ", v.tokens.size(),
                                     " tokens, and the model's vocab_size is ", vocab_size));
  v.fill(static_cast<std::size_t>(vocab_size));
}

// Notes the treatment of spaces in a part of tokenizer.json and in its inner parts.
void look_for_spaces(const Json& part, Preparation& p) {
  if (!part.is_structured()) return;
  if (part.is_object()) {
    const Json type = part.value("type", Json());
    if (type == "Metaspace")
      p.space_prefix |= part.value("prepend_scheme", Json()) != "never" &&
                        part.value("add_prefix_space", Json(true)) != false;
    if (type == "WhitespaceSplit") p.squeeze_spaces = true;
    if (type == "Replace" && part.value("pattern", Json()) == Json{{"Regex", " {2,}"}})
      p.squeeze_spaces = true;
  }
  for (const Json& inner : part) look_for_spaces(inner, p);
}

// True for "<0x41>", which stands for a byte that no piece covers.
bool is_byte_piece(const std::string& text) {
  return text.size() == 6 && text.starts_with("<0x") && text.ends_with('>');
}

GgufVocabulary unigram_vocabulary(const Json& model, const Tokenizer& tokenizer) {
  GgufVocabulary v;
  const Json unknown = model.value("unk_id", Json());
  const bool bytes = model.value("byte_fallback", Json()) == true;
  for (const Json& entry : model.at("vocab")) {  // pairs, as make_tokenizer has checked
    const auto id = static_cast<std::int32_t>(v.tokens.size());
    const auto text = entry.at(0).get<std::string>();
    std::int32_t type = GgufVocabulary::kNormal;
    if (unknown == id)
      type = GgufVocabulary::kUnknown;
    else if (tokenizer.is_special(id))
      type = GgufVocabulary::kControl;
    else if (bytes && is_byte_piece(text))
      type = GgufVocabulary::kByte;
    v.set(v.tokens.size(), text, type, entry.at(1).get<float>());
  }
  return v;
}

}  // namespace

GgufKeys gguf_pieces(const std::string& file, const Tokenizer& tokenizer, std::int64_t vocab_size) {
  const SentencePieceModel model = check_sentencepiece_model(read_file(file, kLargestTokenizer), file);
  GgufVocabulary v;
  for (const auto& piece : model.pieces)
    v.set(v.tokens.size(), piece.text, static_cast<std::int32_t>(piece.kind), piece.score);
  complete(v, tokenizer, vocab_size, file);
  if (!model.unigram) return keys_of_bpe(std::move(v), tokenizer);
  return keys_of_unigram(std::move(v),
                         {model.add_dummy_prefix, model.remove_extra_whitespaces, model.charsmap});
}

GgufKeys gguf_unigram(const std::string& file, const Tokenizer& tokenizer, std::int64_t vocab_size) {
  const Json j = read_json(file, kTokenizerRules);
  GgufVocabulary v = unigram_vocabulary(j.at("model"), tokenizer);
  complete(v, tokenizer, vocab_size, file);
  Preparation p;
  for (const char* part : {"normalizer", "pre_tokenizer"}) look_for_spaces(j.value(part, Json()), p);
  p.charsmap = precompiled_table(JsonObject::read(file, kTokenizerRules));
  return keys_of_unigram(std::move(v), p);
}

}  // namespace ft
