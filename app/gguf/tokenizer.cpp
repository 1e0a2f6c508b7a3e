// Writes a model folder's tokenizer as GGUF's keys: vocabulary, special tokens and chat template.
#include <nlohmann/json.hpp>
#include <optional>

#include "app/gguf/export.h"
#include "app/gguf/vocabulary.h"
#include "data/tokenizers/tokenizer.h"
#include "engine/files/json.h"

namespace ft {
namespace {

std::optional<std::string> chat_template(const std::string& folder) {
  const std::string own = join_path(folder, "chat_template.jinja"),
                    file = join_path(folder, "tokenizer_config.json");
  if (path_exists(own)) return read_file(own, 1 << 20);
  if (!path_exists(file)) return std::nullopt;
  const JsonObject j = JsonObject::read(file);
  if (j.is_text("chat_template")) return j.text("chat_template");
  return std::nullopt;
}

// Returns the folder's vocabulary file. Prefers a SentencePiece model to tokenizer.json, which is converted
// from it: the model has all values that readers need.
std::optional<std::string> vocabulary_file(const std::string& folder) {
  for (const char* name : {"tokenizer.model", "spiece.model", "tokenizer.json"})
    if (std::string file = join_path(folder, name); path_exists(file)) return file;
  return std::nullopt;
}

GgufKeys vocabulary_keys(const std::string& file, const Tokenizer& tokenizer, std::int64_t vocab_size) {
  if (file.ends_with(".model")) return gguf_pieces(file, tokenizer, vocab_size);
  const Json j = read_json(file, kTokenizerRules);
  const bool unigram = j.value("model", Json::object()).value("type", Json()) == "Unigram";
  return unigram ? gguf_unigram(file, tokenizer, vocab_size) : gguf_bpe(file, vocab_size);
}

}  // namespace

GgufKeys gguf_tokenizer_keys(const std::string& folder, std::int64_t vocab_size) {
  const auto file = vocabulary_file(folder);
  if (!file) return {{"tokenizer.ggml.model", std::string("no_vocab")}};
  const auto tokenizer = make_tokenizer(folder);
  GgufKeys keys = vocabulary_keys(*file, *tokenizer, vocab_size);
  const auto special = [&](const char* name, std::optional<std::int32_t> id) {
    if (id) keys.emplace_back(str("tokenizer.ggml.", name, "_token_id"), static_cast<std::uint32_t>(*id));
  };
  special("bos", tokenizer->bos());
  special("eos", tokenizer->eos());
  special("unknown", tokenizer->unk());
  special("padding", tokenizer->pad());
  keys.emplace_back("tokenizer.ggml.add_bos_token", !tokenizer->prefix().empty());
  keys.emplace_back("tokenizer.ggml.add_eos_token", !tokenizer->suffix().empty());
  if (const auto chat = chat_template(folder)) keys.emplace_back("tokenizer.chat_template", *chat);
  return keys;
}

}  // namespace ft
