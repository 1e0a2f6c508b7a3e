// adapter_config.json, both ways. What would change the mathematics and is not ours is refused by name; the rest of
// PEFT's many keys says nothing to us.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/io/json.h"
#include "lora/peft_config.h"

namespace ft::lora {
namespace {

constexpr std::int64_t kMaxRank = std::int64_t{1} << 24;

std::optional<Modules> read_modules(const JsonObject& j, const char* key) {
  if (!j.has(key)) return std::nullopt;
  if (j.is_text(key)) return Modules{j.text(key)};
  return Modules{j.texts(key)};
}

void refuse_foreign(const JsonObject& j) {
  for (const char* key :
       {"use_dora", "fan_in_fan_out", "lora_bias", "use_qalora", "use_bdlora", "ensure_weight_tying"})
    if (j.has(key) && !(j.is_bool(key) && !j.boolean(key))) j.refuse(key, "false: ft does not have it");
  for (const char* key :
       {"layer_replication", "target_parameters", "trainable_token_indices", "layers_pattern",
        "alora_invocation_tokens", "arrow_config", "kasa_config", "velora_config"})
    if (j.has(key) && !(j.is_array(key) && j.json()[key].empty())) j.refuse(key, "null: ft does not have it");
}

}  // namespace

LoraConfig read_adapter_config(const std::string& path, Exit exit, std::string& base_model) {
  const JsonObject j = JsonObject::read(path, {.exit = exit});
  if (j.text("peft_type") != "LORA") j.refuse("peft_type", "LORA");
  refuse_foreign(j);
  LoraConfig c;
  c.r = j.integer("r", 1, kMaxRank);
  c.lora_alpha = j.positive_number_or("lora_alpha", 8);
  c.lora_dropout = j.number_or("lora_dropout", 0);
  if (c.lora_dropout < 0 || c.lora_dropout >= 1) j.refuse("lora_dropout", "at least 0 and below 1");
  const auto targets = read_modules(j, "target_modules");
  if (!targets) j.refuse("target_modules", "a list of names or a text");
  c.target_modules = *targets;
  c.exclude_modules = read_modules(j, "exclude_modules");
  if (j.has("modules_to_save")) c.modules_to_save = j.texts("modules_to_save");
  if (j.has("layers_to_transform")) c.layers_to_transform = j.integers("layers_to_transform");
  c.use_rslora = j.boolean_or("use_rslora", false);
  c.bias = j.text_or("bias", "none");
  if (c.bias != "none" && c.bias != "all" && c.bias != "lora_only")
    j.refuse("bias", "none, all or lora_only");
  auto pattern = [&](const char* key, auto& out, auto read) {
    if (!j.has(key)) return;
    const JsonObject o = j.object(key);
    for (const std::string& k : o.keys()) out.emplace_back(k, read(o, k));
  };
  pattern("rank_pattern", c.rank_pattern,
          [](const JsonObject& o, auto& k) { return o.integer(k, 1, kMaxRank); });
  pattern("alpha_pattern", c.alpha_pattern, [](const JsonObject& o, auto& k) { return o.number(k); });
  base_model = j.has("base_model_name_or_path") ? j.text("base_model_name_or_path") : "";
  return c;
}

std::string adapter_config_text(const LoraConfig& c, const std::vector<std::string>& linears,
                                const std::string& base_model) {
  auto number = [](double v) {
    return v == std::floor(v) && std::abs(v) < 1e15 ? Json(static_cast<std::int64_t>(v)) : Json(v);
  };
  auto modules = [](const Modules& m) { return std::visit([](const auto& v) { return Json(v); }, m); };
  auto optional = [](const auto& v) { return v ? Json(*v) : Json(nullptr); };
  Json targets = modules(c.target_modules);
  if (targets == "all-linear") {  // as PEFT writes it: the names that it came to
    std::vector<std::string> names;
    for (const std::string& l : linears) {
      const std::string last = l.substr(l.rfind('.') + 1);
      if (std::find(names.begin(), names.end(), last) == names.end()) names.push_back(last);
    }
    targets = names;
  }
  Json ranks = Json::object(), alphas = Json::object();
  for (const auto& [k, v] : c.rank_pattern) ranks[k] = v;
  for (const auto& [k, v] : c.alpha_pattern) alphas[k] = number(v);
  const Json j = {
      {"alpha_pattern", alphas},
      {"base_model_name_or_path", base_model},
      {"bias", c.bias},
      {"exclude_modules", c.exclude_modules ? modules(*c.exclude_modules) : Json(nullptr)},
      {"fan_in_fan_out", false},
      {"inference_mode", true},
      {"init_lora_weights",
       c.init_lora_weights == "gaussian" ? Json("gaussian") : Json(c.init_lora_weights == "true")},
      {"layers_pattern", nullptr},
      {"layers_to_transform", optional(c.layers_to_transform)},
      {"lora_alpha", number(c.lora_alpha)},
      {"lora_bias", false},
      {"lora_dropout", c.lora_dropout},
      {"modules_to_save", optional(c.modules_to_save)},
      {"peft_type", "LORA"},
      {"r", c.r},
      {"rank_pattern", ranks},
      {"target_modules", targets},
      {"task_type", "CAUSAL_LM"},
      {"use_dora", false},
      {"use_rslora", c.use_rslora}};
  return json_text(j) + "\n";
}

}  // namespace ft::lora
