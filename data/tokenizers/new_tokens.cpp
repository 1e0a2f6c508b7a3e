#include "data/tokenizers/new_tokens.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "data/tokenizers/tokenizer.h"
#include "engine/core/error.h"
#include "engine/files/file.h"
#include "engine/files/json.h"

namespace ft {
namespace {

namespace fs = std::filesystem;

constexpr JsonRules kTokenListRules{.max_bytes = std::size_t{256} << 20};

Json flags_of(const AddedToken& t) {
  return {{"content", t.content}, {"single_word", t.single_word}, {"lstrip", t.lstrip},
          {"rstrip", t.rstrip},   {"normalized", t.normalized},   {"special", t.special}};
}

bool is_there(const Json& tokens, const std::string& content) {
  return std::any_of(tokens.begin(), tokens.end(),
                     [&](const Json& t) { return t.is_object() && t.value("content", "") == content; });
}

// Adds tokens that have an id, ordered by id.
void add_to_tokenizer_json(const fs::path& file, const std::vector<AddedToken>& tokens) {
  Json tree = read_json(file.string(), kTokenListRules);
  if (!tree["added_tokens"].is_array()) tree["added_tokens"] = Json::array();
  auto& added = *tree["added_tokens"].get_ptr<Json::array_t*>();
  for (const AddedToken& t : tokens) {
    if (is_there(tree["added_tokens"], t.content)) continue;
    Json one{{"id", *t.id}};
    one.update(flags_of(t));
    added.push_back(std::move(one));
  }
  std::stable_sort(added.begin(), added.end(), [](const Json& a, const Json& b) {
    return a.value("id", std::int64_t{0}) < b.value("id", std::int64_t{0});
  });
  write_file(file.string(), json_text(tree) + "\n");
}

void add_to_decoder(const fs::path& file, const std::vector<AddedToken>& tokens) {
  std::error_code none;
  if (!fs::exists(file, none)) return;
  Json tree = read_json(file.string(), kTokenListRules);
  if (!tree.contains("added_tokens_decoder")) return;
  Json& decoder = tree["added_tokens_decoder"];
  for (const AddedToken& t : tokens)
    if (!is_there(decoder, t.content)) decoder[std::to_string(*t.id)] = flags_of(t);
  write_file(file.string(), json_text(tree) + "\n");
}

// Adds tokens to a folder with tokenizer.model or vocab.json.
void add_to_lists(const fs::path& folder, const std::vector<AddedToken>& tokens) {
  const auto read = [&](const char* name) {
    std::error_code none;
    return fs::exists(folder / name, none) ? read_json((folder / name).string(), kTokenListRules)
                                           : Json::object();
  };
  constexpr const char *kIds = "added_tokens.json", *kSpecials = "special_tokens_map.json",
                       *kMore = "additional_special_tokens";
  Json ids = read(kIds), specials = read(kSpecials);
  if (!specials[kMore].is_array()) specials[kMore] = Json::array();
  for (const AddedToken& t : tokens) {
    if (!ids.contains(t.content)) ids[t.content] = *t.id;
    Json& more = specials[kMore];
    if (t.special && std::find(more.begin(), more.end(), Json(t.content)) == more.end())
      more.push_back(t.content);
  }
  write_file((folder / kIds).string(), json_text(ids) + "\n");
  if (!specials[kMore].empty()) write_file((folder / kSpecials).string(), json_text(specials) + "\n");
}

}  // namespace

std::vector<AddedToken> new_tokens(const DataConfig& config) {
  std::vector<AddedToken> out;
  const auto add = [&](const std::vector<std::string>& contents, const char* setting, bool special) {
    for (const std::string& content : contents) {
      if (content.empty()) throw UserError(Exit::config, str("data.", setting, ": has an empty token"));
      const AddedToken token{.content = content, .id = {}, .special = special, .normalized = !special};
      const auto same =
          std::find_if(out.begin(), out.end(), [&](const AddedToken& t) { return t.content == content; });
      if (same == out.end())
        out.push_back(token);
      else
        *same = token;  // in both lists: a special token
    }
  };
  add(config.new_tokens, "new_tokens", false);
  add(config.new_special_tokens, "new_special_tokens", true);
  return out;
}

void write_new_tokens(const fs::path& folder, const std::vector<AddedToken>& tokens) {
  if (tokens.empty()) return;
  const auto tokenizer = make_tokenizer(folder, tokens);
  std::vector<AddedToken> with_ids = tokens;
  for (AddedToken& t : with_ids) t.id = tokenizer->id(t.content);
  std::error_code none;
  if (const fs::path file = folder / "tokenizer.json"; fs::exists(file, none))
    add_to_tokenizer_json(file, with_ids);
  else
    add_to_lists(folder, with_ids);
  add_to_decoder(folder / "tokenizer_config.json", with_ids);
}

}  // namespace ft
