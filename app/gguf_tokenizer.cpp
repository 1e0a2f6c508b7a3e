// A model folder's tokenizer as GGUF's keys: SentencePiece's pieces and scores, or the tokens and merges of a
// byte-level BPE.
#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "app/gguf_export.h"
#include "data/sentencepiece_model.h"
#include "data/tokenizer.h"
#include "engine/io/json.h"

namespace ft {
namespace {

constexpr std::int64_t kLargestFile = std::int64_t{1} << 28;  // bytes of a tokenizer's file
// tokenizer.ggml.token_type: SentencePiece's numbers.
constexpr std::int32_t kNormal = 1, kControl = 3, kUserDefined = 4, kUnused = 5;

struct Vocabulary {
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<std::int32_t> types;
  // Ids that nothing names are filled up, as converters do.
  void fill(std::size_t size) {
    tokens.resize(std::max(size, tokens.size()));
    scores.resize(tokens.size(), -10000);
    types.resize(tokens.size(), kUnused);
    for (std::size_t i = 0; i < tokens.size(); ++i)
      if (tokens[i].empty() && types[i] == kUnused) tokens[i] = "[PAD" + std::to_string(i) + "]";
  }
  void set(std::size_t id, const std::string& token, std::int32_t type) {
    if (id >= tokens.size()) {
      tokens.resize(id + 1);
      scores.resize(id + 1, -10000);
      types.resize(id + 1, kUnused);
    }
    tokens[id] = token;
    types[id] = type;
  }
};

void require_room(std::size_t size, std::int64_t vocab_size, const std::string& file) {
  if (static_cast<std::int64_t>(size) > vocab_size)
    throw UserError(Exit::input,
                    str(printable(file), ": ", size, " tokens, and the model's vocab_size is ", vocab_size));
}

GgufKeys sentencepiece_keys(const std::string& folder, const Tokenizer& tokenizer, std::int64_t vocab_size) {
  const std::string file = join_path(folder, "tokenizer.model");
  const SentencePieceModel model = check_sentencepiece_model(read_file(file, kLargestFile), file);
  Vocabulary v;
  for (const auto& piece : model.pieces) {
    v.tokens.push_back(piece.text);
    v.scores.push_back(piece.score);
    v.types.push_back(static_cast<std::int32_t>(piece.kind));
  }
  for (std::int64_t id = 0; id < tokenizer.size(); ++id) {  // added tokens
    const auto at = static_cast<std::size_t>(id);
    const std::string token = tokenizer.token(static_cast<std::int32_t>(id));
    if (token.empty() || (at < v.tokens.size() && v.tokens[at] == token)) continue;
    v.set(at, token, tokenizer.is_special(static_cast<std::int32_t>(id)) ? kControl : kUserDefined);
  }
  require_room(v.tokens.size(), vocab_size, file);
  v.fill(static_cast<std::size_t>(vocab_size));
  return {{"tokenizer.ggml.model", std::string("llama")},
          {"tokenizer.ggml.pre", std::string("default")},
          {"tokenizer.ggml.tokens", std::move(v.tokens)},
          {"tokenizer.ggml.scores", std::move(v.scores)},
          {"tokenizer.ggml.token_type", std::move(v.types)}};
}

// How texts are cut before BPE: readers know patterns by the names of the models that brought them.
struct Pattern {
  const char *name, *regex;
};
constexpr std::array kPatterns = {
    Pattern{"llama-bpe", R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
                         R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    Pattern{"qwen2", R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
                     R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};

void find_patterns(const Json& j, std::vector<std::string>& regexes, bool& gpt2) {
  if (j.is_object()) {
    if (j.contains("Regex") && j["Regex"].is_string()) regexes.push_back(j["Regex"].get<std::string>());
    if (j.value("type", Json()) == "ByteLevel" && j.value("use_regex", Json(true)) == true) gpt2 = true;
  }
  if (j.is_structured())
    for (const Json& inner : j) find_patterns(inner, regexes, gpt2);
}

std::string pattern_name(const Json& tokenizer, const std::string& file) {
  std::vector<std::string> regexes;
  bool gpt2 = false;
  find_patterns(tokenizer.value("pre_tokenizer", Json()), regexes, gpt2);
  if (regexes.empty() && gpt2) return "gpt-2";
  if (regexes.size() == 1)
    for (const Pattern& p : kPatterns)
      if (regexes[0] == p.regex) return p.name;
  throw UserError(Exit::input, printable(file) +
                                   ": its pre_tokenizer is none that GGUF has a name for; ft knows those of "
                                   "GPT-2, LLaMA 3 and Qwen 2");
}

GgufKeys bpe_keys(const std::string& file, std::int64_t vocab_size) {
  const Json j = read_json(file, {.max_bytes = kLargestFile});
  const auto refuse = [&](const std::string& what) {
    throw UserError(Exit::input, printable(file) + ": " + what);
  };
  const Json& model = j.contains("model") ? j["model"] : Json();
  if (!model.is_object() || !model.contains("vocab") || !model["vocab"].is_object() ||
      !model.value("merges", Json()).is_array() || model.value("byte_fallback", Json()) == true)
    refuse("only byte-level BPE, and SentencePiece in tokenizer.model, can be exported to GGUF");
  const std::string pre = pattern_name(j, file);
  Vocabulary v;
  const auto place = [&](const Json& id) {
    if (!id.is_number_unsigned() || id >= vocab_size)
      refuse("token id " + json_excerpt(id) + " is beyond the model's vocab_size");
    return id.get<std::size_t>();
  };
  for (const auto& [token, id] : model["vocab"].items()) v.set(place(id), token, kNormal);
  for (const Json& added : j.value("added_tokens", Json::array()))
    if (added.is_object() && added.contains("id") && added.value("content", Json()).is_string())
      v.set(place(added["id"]), added["content"].get<std::string>(),
            added.value("special", Json()) == true ? kControl : kUserDefined);
  std::vector<std::string> merges;
  for (const Json& merge : model["merges"]) {
    const bool pair = merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
    if (!pair && !merge.is_string()) refuse("merges has " + json_excerpt(merge));
    merges.push_back(pair ? merge[0].get<std::string>() + " " + merge[1].get<std::string>()
                          : merge.get<std::string>());
  }
  v.fill(static_cast<std::size_t>(vocab_size));
  return {{"tokenizer.ggml.model", std::string("gpt2")},
          {"tokenizer.ggml.pre", pre},
          {"tokenizer.ggml.tokens", std::move(v.tokens)},
          {"tokenizer.ggml.token_type", std::move(v.types)},
          {"tokenizer.ggml.merges", std::move(merges)}};
}

std::optional<std::string> chat_template(const std::string& folder) {
  const std::string own = join_path(folder, "chat_template.jinja"),
                    file = join_path(folder, "tokenizer_config.json");
  if (path_exists(own)) return read_file(own, 1 << 20);
  if (!path_exists(file)) return std::nullopt;
  const JsonObject j = JsonObject::read(file);
  if (j.is_text("chat_template")) return j.text("chat_template");
  return std::nullopt;
}

}  // namespace

GgufKeys gguf_tokenizer_keys(const std::string& folder, std::int64_t vocab_size) {
  const std::string json = join_path(folder, "tokenizer.json");
  const bool pieces = path_exists(join_path(folder, "tokenizer.model"));
  if (!pieces && !path_exists(json)) return {{"tokenizer.ggml.model", std::string("no_vocab")}};
  const auto tokenizer = make_tokenizer(folder);
  GgufKeys keys = pieces ? sentencepiece_keys(folder, *tokenizer, vocab_size) : bpe_keys(json, vocab_size);
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
