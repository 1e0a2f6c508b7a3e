#include "models/gguf/gguf_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/files/json.h"
#include "models/gguf/gguf_key_reader.h"
#include "models/registry.h"

namespace ft {
namespace {

// Returns the tokens that end texts, turns and messages.
std::vector<std::int64_t> end_tokens(const GgufKeyReader& keys) {
  std::vector<std::int64_t> ids;
  for (const char* role : {"eos", "eot", "eom"})
    if (const auto id = keys.token_id(role); id && std::ranges::find(ids, *id) == ids.end())
      ids.push_back(*id);
  return ids;
}

}  // namespace

std::string config_of_gguf(const GgufFile& file) {
  const GgufKeyReader keys(file);
  Json config = read_gguf_config(keys);
  if (const auto id = keys.token_id("bos")) config["bos_token_id"] = *id;
  const std::vector<std::int64_t> ends = end_tokens(keys);
  if (!ends.empty()) config["eos_token_id"] = ends.size() == 1 ? Json(ends[0]) : Json(ends);
  if (const auto id = keys.token_id("padding")) config["pad_token_id"] = *id;
  config["torch_dtype"] = name_of(gguf_base_type(file));
  return json_text(config) + "\n";
}

}  // namespace ft
