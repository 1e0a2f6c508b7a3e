#include "data/tokenizers/gguf_tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "data/tokenizers/gguf_cuts.h"
#include "engine/core/error.h"
#include "engine/files/json.h"
#include "engine/files/protobuf.h"

namespace ft {
namespace {

// Token types, with SentencePiece's numbers, which GGUF uses too.
constexpr std::int32_t kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6;

// Checks and holds the keys tokenizer.ggml.*.
class TokenizerKeys {
 public:
  explicit TokenizerKeys(const GgufFile& file) : file_(file) {
    if (const auto* t = find<std::vector<std::string>>("tokens")) tokens = *t;
    if (const auto* s = find<std::vector<float>>("scores")) scores = *s;
    if (const auto* k = find<std::vector<std::int32_t>>("token_type")) kinds = *k;
    if (kinds.empty()) kinds.assign(tokens.size(), kNormal);
    if (kinds.size() != tokens.size()) refuse("tokenizer.ggml.token_type has another length than the tokens");
    // In some files of SentencePiece models, such as Gemma's, the unknown token has the type control.
    if (const auto* id = find<std::uint32_t>("unknown_token_id");
        id && *id < kinds.size() && std::ranges::find(kinds, kUnknown) == kinds.end() &&
        text("model") != "gpt2")
      kinds[*id] = kUnknown;
  }

  std::vector<std::string> tokens;  // by id
  std::vector<float> scores;
  std::vector<std::int32_t> kinds;

  template <class T>
  const T* find(const std::string& name) const {
    const GgufValue* v = file_.find("tokenizer.ggml." + name);
    return v ? std::get_if<T>(v) : nullptr;
  }
  std::string text(const std::string& name) const {
    const auto* t = find<std::string>(name);
    return t ? *t : "";
  }
  bool flag(const std::string& name, bool otherwise) const {
    const bool* b = find<bool>(name);
    return b ? *b : otherwise;
  }
  // Returns the token with a role; nullopt: no token has it.
  std::optional<std::string> special(const std::string& role) const {
    const auto* id = find<std::uint32_t>(role + "_token_id");
    if (!id) return std::nullopt;
    if (*id >= tokens.size()) refuse(str("tokenizer.ggml.", role, "_token_id is beyond the tokens"));
    return tokens[*id];
  }
  [[noreturn]] void refuse(const std::string& what) const {
    throw UserError(Exit::input, str(printable(file_.path()), ": ", what));
  }

 private:
  const GgufFile& file_;
};

// Returns true for tokens that are never cut.
bool is_added(std::int32_t kind) { return kind == kControl || kind == kUserDefined; }

Json added_token(const TokenizerKeys& keys, std::size_t id) {
  return {{"content", keys.tokens[id]},
          {"single_word", false},
          {"lstrip", false},
          {"rstrip", false},
          {"normalized", false},
          {"special", keys.kinds[id] == kControl}};
}

// Returns the cut that tokenizer.ggml.pre names.
const GgufCut& cut_of(const TokenizerKeys& keys) {
  const std::string name = keys.text("pre");
  if (name.empty())
    keys.refuse(
        "tokenizer.ggml.pre is missing, and no other key names the way to split texts; convert the model "
        "again with a newer llama.cpp");
  const GgufCut* cut = find_gguf_cut(name);
  if (!cut)
    keys.refuse(str("tokenizer.ggml.pre is ", printable(name), "; ft splits texts as ", gguf_cut_names(),
                    " and related models do (docs/generation.md)"));
  return *cut;
}

// Returns tokenizer.json of a byte-level BPE.
Json bpe_json(const TokenizerKeys& keys) {
  Json vocabulary = Json::object(), added = Json::array();
  // Entries are appended directly, because Json would search for each key.
  auto& entries = *vocabulary.get_ptr<Json::object_t*>();
  for (std::size_t id = 0; id < keys.tokens.size(); ++id) {
    if (keys.kinds[id] == kUnused) continue;
    if (!is_added(keys.kinds[id])) {
      entries.emplace_back(keys.tokens[id], id);
      continue;
    }
    Json token = added_token(keys, id);
    token["id"] = id;
    added.push_back(token);
  }
  // Readers number added tokens from the vocabulary's size on, unless the vocabulary contains them.
  bool follow = true;
  for (std::size_t i = 0; i < added.size(); ++i) follow &= added[i]["id"] == entries.size() + i;
  if (!follow)
    for (const Json& token : added) entries.emplace_back(token["content"].get<std::string>(), token["id"]);
  const auto* merges = keys.find<std::vector<std::string>>("merges");
  if (!merges) keys.refuse("tokenizer.ggml.merges is missing");
  const GgufCut& cut = cut_of(keys);
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added},
          {"normalizer", cut.composed ? Json{{"type", "NFC"}} : Json()},
          {"pre_tokenizer", pre_tokenizer_of(cut)},
          {"post_processor", nullptr},
          {"decoder",
           {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}}},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", ""},
            {"end_of_word_suffix", ""},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", cut.whole_pieces},
            {"vocab", vocabulary},
            {"merges", *merges}}}};
}

// Returns SentencePiece's file. Tokens added after its pieces belong into tokenizer_config.json.
std::string sentencepiece_model(const TokenizerKeys& keys, bool unigram) {
  using namespace protobuf;  // NOLINT: this function writes a message
  constexpr int kPieces = 1, kTrainer = 2, kNormalizer = 3, kText = 1, kScore = 2, kPieceKind = 3;
  constexpr int kModelType = 3, kUnigramModel = 1, kBpeModel = 2, kByteFallback = 35;
  constexpr int kName = 1, kCharsmap = 2, kDummyPrefix = 3, kSqueeze = 4, kEscape = 5;
  if (keys.scores.size() != keys.tokens.size())
    keys.refuse("tokenizer.ggml.scores has another length than the tokens");
  std::size_t end = keys.tokens.size();
  while (end > 0 && (is_added(keys.kinds[end - 1]) || keys.kinds[end - 1] == kUnused)) --end;
  std::string model;
  bool bytes_there = false;
  for (std::size_t id = 0; id < end; ++id) {
    bytes_there |= keys.kinds[id] == kByte;
    model += bytes(kPieces, bytes(kText, keys.tokens[id]) + real32(kScore, keys.scores[id]) +
                                integer(kPieceKind, keys.kinds[id]));
  }
  model += bytes(kTrainer, integer(kModelType, unigram ? kUnigramModel : kBpeModel) +
                               integer(kByteFallback, bytes_there));
  std::string normalizer = bytes(kName, unigram ? "nmt_nfkc" : "identity");
  if (const auto* map = keys.find<std::vector<std::uint8_t>>("precompiled_charsmap"))
    normalizer += bytes(kCharsmap, {reinterpret_cast<const char*>(map->data()), map->size()});
  normalizer += integer(kDummyPrefix, keys.flag("add_space_prefix", true)) +
                integer(kSqueeze, keys.flag("remove_extra_whitespaces", false)) + integer(kEscape, 1);
  return model + bytes(kNormalizer, normalizer);
}

Json tokenizer_config(const TokenizerKeys& keys, const char* tokenizer_class) {
  Json config = {{"tokenizer_class", tokenizer_class}, {"clean_up_tokenization_spaces", false}};
  for (const auto& [name, role] : {std::pair{"bos_token", "bos"}, std::pair{"eos_token", "eos"},
                                   std::pair{"unk_token", "unknown"}, std::pair{"pad_token", "padding"}}) {
    const auto token = keys.special(role);
    config[name] = token ? Json(*token) : Json();
  }
  const GgufCut* cut = find_gguf_cut(keys.text("pre"));
  const bool begins = keys.text("model") == "llama" || (keys.text("model") == "gpt2" && cut && cut->begins);
  config["add_bos_token"] = keys.flag("add_bos_token", begins) && keys.special("bos");
  config["add_eos_token"] = keys.flag("add_eos_token", keys.text("model") == "t5") && keys.special("eos");
  return config;
}

void add_tokens(const TokenizerKeys& keys, Json& config) {
  Json added = Json::object();
  for (std::size_t id = 0; id < keys.tokens.size(); ++id)
    if (is_added(keys.kinds[id]) || keys.kinds[id] == kUnknown) {
      added[std::to_string(id)] = added_token(keys, id);
      if (keys.kinds[id] == kUnknown) added[std::to_string(id)]["special"] = true;
    }
  config["added_tokens_decoder"] = added;
  config["legacy"] = true;  // readers of GGUF put a space before every text between special tokens
  config["add_prefix_space"] = keys.flag("add_space_prefix", true);
  config["extra_ids"] = 0;
}

}  // namespace

void write_gguf_tokenizer(const GgufFile& file, const std::string& folder) {
  const TokenizerKeys keys(file);
  const std::string kind = keys.text("model");
  if (kind.empty() || kind == "no_vocab") return;
  Json config;
  if (kind == "gpt2") {
    config = tokenizer_config(keys, "PreTrainedTokenizerFast");
    write_file(join_path(folder, "tokenizer.json"), json_text(bpe_json(keys)));
  } else if (kind == "llama" || kind == "t5") {
    const bool unigram = kind == "t5";
    config = tokenizer_config(keys, unigram ? "T5Tokenizer" : "LlamaTokenizer");
    add_tokens(keys, config);
    write_file(join_path(folder, unigram ? "spiece.model" : "tokenizer.model"),
               sentencepiece_model(keys, unigram));
  } else {
    keys.refuse("tokenizer.ggml.model is " + printable(kind) + "; ft reads llama, gpt2 and t5");
  }
  write_file(join_path(folder, "tokenizer_config.json"), json_text(config) + "\n");
  const GgufValue* chat = file.find("tokenizer.chat_template");
  if (const auto* text = chat ? std::get_if<std::string>(chat) : nullptr)
    write_file(join_path(folder, "chat_template.jinja"), *text);
}

}  // namespace ft
