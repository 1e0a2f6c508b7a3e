#include "data/tokenizers/tokenizer_settings.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "data/tokenizers/json/token_model.h"
#include "engine/core/error.h"
#include "engine/files/json.h"

namespace ft {
namespace {

namespace fs = std::filesystem;

constexpr JsonRules kSettingsRules{.max_bytes = std::size_t{64} << 20};

std::optional<JsonObject> read_if_there(const fs::path& file) {
  std::error_code error;
  if (!fs::exists(file, error)) return std::nullopt;
  return JsonObject::read(file.string(), kSettingsRules);
}

bool has_key(const JsonObject& o, std::string_view key) {
  const auto keys = o.keys();
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

// Returns the default names in a class of transformers.
SpecialNames names_of(const std::string& tokenizer_class, const SpecialNames& otherwise) {
  const std::string end = "<|endoftext|>";
  const auto is = [&](std::string_view name) {
    return tokenizer_class == name || tokenizer_class == str(name, "Fast");
  };
  if (is("LlamaTokenizer")) return kLlamaNames;
  if (is("GPT2Tokenizer")) return {end, end, end, std::nullopt};
  if (is("Qwen2Tokenizer")) return {std::nullopt, end, end, end};
  if (is("T5Tokenizer")) return {std::nullopt, "</s>", "<unk>", "<pad>"};
  if (is("GemmaTokenizer")) return {"<bos>", "<eos>", "<unk>", "<pad>"};
  return otherwise;
}

// Reads {"content": "<s>", "lstrip": false, ...}.
AddedToken read_token(const JsonObject& o) {
  AddedToken t;
  t.content = o.text("content");
  t.normalized = o.boolean_or("normalized", false);
  t.special = o.boolean_or("special", false);
  t.lstrip = o.boolean_or("lstrip", false);
  t.rstrip = o.boolean_or("rstrip", false);
  t.single_word = o.boolean_or("single_word", false);
  return t;
}

// Reads a token given as text or as an object.
AddedToken token_at(const JsonObject& o, const std::string& key) {
  return o.is_object(key) ? read_token(o.object(key)) : AddedToken{.content = o.text(key), .id = {}};
}

class Reader {
 public:
  explicit Reader(const fs::path& folder)
      : config_(read_if_there(folder / "tokenizer_config.json")),
        map_(read_if_there(folder / "special_tokens_map.json")),
        added_(read_if_there(folder / "added_tokens.json")) {}

  TokenizerSettings read(const SpecialNames& otherwise, const std::vector<AddedToken>& more) {
    if (config_) read_switches(*config_);
    const bool decoder = config_ && config_->has("added_tokens_decoder");
    if (decoder)
      read_decoder(config_->object("added_tokens_decoder"));
    else if (added_)
      read_added_json(*added_);
    out_.added_with_flags = decoder;
    SpecialNames& names = out_.names;
    names = names_of(out_.tokenizer_class, otherwise);
    if (config_) read_specials(*config_);
    // A newer tokenizer_config.json is complete; with an older one the map takes precedence.
    if (map_ && !decoder) read_specials(*map_);
    for (const auto& name : {names.bos, names.eos, names.unk, names.pad})
      if (name) add({.content = *name, .id = {}, .special = true});
    for (const AddedToken& token : more) add(token);
    return std::move(out_);
  }

 private:
  void read_switches(const JsonObject& c) {
    out_.tokenizer_class = c.text_or("tokenizer_class", "");
    out_.says_bos = has_key(c, "add_bos_token");
    out_.says_eos = has_key(c, "add_eos_token");
    out_.add_bos = c.boolean_or("add_bos_token", out_.add_bos);
    out_.add_eos = c.boolean_or("add_eos_token", out_.add_eos);
    out_.says_prefix_space = c.has("add_prefix_space");
    out_.add_prefix_space = c.boolean_or("add_prefix_space", out_.add_prefix_space);
    out_.legacy = c.boolean_or("legacy", out_.legacy);
    out_.extra_ids = c.integer_or("extra_ids", out_.extra_ids, 0, kEndOfIds - 1);
    out_.clean_up = c.boolean_or("clean_up_tokenization_spaces", out_.clean_up);
    if (c.has("sp_model_kwargs") && !c.object("sp_model_kwargs").keys().empty())
      c.refuse("sp_model_kwargs", "empty");
  }

  // Reads {"32000": {"content": ...}, ...}.
  void read_decoder(const JsonObject& decoder) {
    for (const std::string& key : decoder.keys()) {
      std::int64_t id = -1;
      const char* end = key.data() + key.size();
      if (std::from_chars(key.data(), end, id).ptr != end || id < 0 || id >= kEndOfIds)
        decoder.refuse(key, "under the number of a token");
      AddedToken token = read_token(decoder.object(key));
      token.id = static_cast<std::int32_t>(id);
      add(token);
    }
    std::sort(out_.added.begin(), out_.added.end(),
              [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  }

  // Reads {"<tool>": 32000, ...}.
  void read_added_json(const JsonObject& added) {
    for (const std::string& content : added.keys())
      add({.content = content, .id = static_cast<std::int32_t>(added.integer(content, 0, kEndOfIds - 1))});
    std::sort(out_.added.begin(), out_.added.end(),
              [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  }

  void read_specials(const JsonObject& o) {
    const auto name = [&](const char* key, std::optional<std::string>& to) {
      if (!o.has(key)) {
        // A null removes a default; an absent key keeps it.
        if (has_key(o, key)) to.reset();
        return;
      }
      to = special(o, key);
    };
    name("bos_token", out_.names.bos);
    name("eos_token", out_.names.eos);
    name("unk_token", out_.names.unk);
    name("pad_token", out_.names.pad);
    for (const auto& [_, token] : own_special_tokens(o)) add_special(token);
    for (const char* key : {"additional_special_tokens", "extra_special_tokens"})
      if (o.is_array(key)) read_more(o, key);
  }

  void read_more(const JsonObject& o, const char* key) {
    for (const Json& item : o.json().at(key)) {
      if (item.is_string())
        add({.content = item.get<std::string>(), .id = {}, .special = true});
      else if (item.is_object())
        add_special(read_token(JsonObject::parse(item.dump(), {o.file()})));
      else
        o.refuse(key, "a list of tokens");
    }
  }

  std::string special(const JsonObject& o, const char* key) { return add_special(token_at(o, key)); }
  std::string add_special(AddedToken token) {
    token.special = true;
    add(token);
    return token.content;
  }

  // Adds a token. An existing one keeps its id and flags, but may become special.
  void add(const AddedToken& token) {
    if (token.content.empty()) return;
    const auto same = std::find_if(out_.added.begin(), out_.added.end(),
                                   [&](const AddedToken& t) { return t.content == token.content; });
    if (same == out_.added.end())
      out_.added.push_back(token);
    else
      same->special = same->special || token.special;
  }

  TokenizerSettings out_;
  std::optional<JsonObject> config_, map_, added_;
};

}  // namespace

std::vector<std::pair<std::string, AddedToken>> own_special_tokens(const JsonObject& file) {
  std::vector<std::pair<std::string, AddedToken>> out;
  for (const char* list : {"extra_special_tokens", "model_specific_special_tokens"})
    if (file.is_object(list)) {
      const JsonObject tokens = file.object(list);
      for (const std::string& name : tokens.keys())
        if (tokens.has(name)) out.emplace_back(name, token_at(tokens, name));
    }
  for (const std::string& name : file.keys()) {
    const bool usual =
        name == "bos_token" || name == "eos_token" || name == "unk_token" || name == "pad_token";
    const bool token = file.is_text(name) || (file.is_object(name) && file.object(name).is_text("content"));
    if (!usual && name.ends_with("_token") && token) out.emplace_back(name, token_at(file, name));
  }
  return out;
}

TokenizerSettings read_tokenizer_settings(const fs::path& folder, const SpecialNames& otherwise,
                                          const std::vector<AddedToken>& more) {
  return Reader(folder).read(otherwise, more);
}

}  // namespace ft
