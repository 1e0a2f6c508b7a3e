#include "app/rollouts/prompt.h"

#include "engine/files/file.h"
#include "engine/files/json.h"
#include "models/text_config.h"

namespace ft {

void check_forced_tokens(const GenerationConfig& g, std::int64_t vocab_size) {
  for (const auto& [name, token] : {std::pair{"forced_bos_token_id", g.forced_bos_token_id},
                                    std::pair{"forced_eos_token_id", g.forced_eos_token_id}})
    if (token && *token >= vocab_size)
      throw UserError(Exit::config, str("generation.", name, ": ", *token,
                                        "; the model's token ids are 0 to ", vocab_size - 1));
}

std::vector<std::int32_t> end_tokens(const std::string& folder, const Tokenizer* tokenizer) {
  for (const char* name : {"generation_config.json", "config.json"}) {
    const std::string path = join_path(folder, name);
    if (!path_exists(path)) continue;
    const JsonObject whole = JsonObject::read(path);
    const JsonObject j = whole.has("eos_token_id") ? whole : text_settings(whole);
    if (!j.has("eos_token_id")) continue;
    std::vector<std::int32_t> ids;
    for (const std::int64_t id : j.integers("eos_token_id")) {
      if (id < 0 || id > INT32_MAX) j.refuse("eos_token_id", "a token id or a list of them");
      ids.push_back(static_cast<std::int32_t>(id));
    }
    return ids;
  }
  if (tokenizer && tokenizer->eos()) return {*tokenizer->eos()};
  return {};
}

Prompt prompt_of(std::vector<std::int32_t> ids, const ModelInfo& info) {
  if (!info.decoder) return {.ids = std::move(ids)};
  return {.ids = {info.decoder->start}, .source = std::move(ids)};
}

}  // namespace ft
