// adapter_config.json, both ways. Keys that would change the mathematics and that ft does not have are
// refused by name; the rest of PEFT's many keys is ignored.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "engine/io/json.h"
#include "lora/peft_config.h"

namespace ft::lora {
namespace {

constexpr std::int64_t kMaxRank = std::int64_t{1} << 24;

std::optional<Modules> read_modules(const JsonObject& j, const char* key) {
  if (!j.has(key)) return std::nullopt;
  if (j.is_text(key)) return Modules{j.text(key)};
  if (!j.is_array(key)) j.refuse(key, "a string or an array of strings");
  return Modules{j.texts(key)};
}

// Settings that make another update than B A x. fan_in_fan_out is not among them: PEFT ignores it on Linears.
void refuse_foreign(const JsonObject& j) {
  for (const char* key :
       {"use_dora", "lora_bias", "use_qalora", "use_bdlora", "layer_replication", "target_parameters",
        "trainable_token_indices", "alora_invocation_tokens", "arrow_config", "kasa_config", "velora_config",
        "monteclora_config", "ensure_weight_tying"}) {
    if (!j.has(key)) continue;
    const Json& v = j.json()[key];
    if (v != false && !(v.is_structured() && v.empty()))
      j.refuse(key, "false or null: ft does not compute this kind of LoRA");
  }
  const auto layers = read_modules(j, "layers_pattern");
  if (!layers) return;
  const auto* text = std::get_if<std::string>(&*layers);
  for (const std::string& name : text ? std::vector{*text} : std::get<std::vector<std::string>>(*layers))
    if (!name.empty() && name != "layers" && name != "block" && name != "h")
      j.refuse(
          "layers_pattern",
          "\"layers\", T5's \"block\" or GPT-2's \"h\", the lists of layers in the models that ft knows");
}

// How A and B began. PEFT runs the ones that are refused again when it loads the adapter, and they change the
// base's weights; eva and orthogonal only chose where A and B began.
LoraInit read_init(const JsonObject& j) {
  if (!j.has("init_lora_weights")) return LoraInit::kaiming;
  if (j.is_bool("init_lora_weights"))
    return j.boolean("init_lora_weights") ? LoraInit::kaiming : LoraInit::random_b;
  const std::string init = j.text("init_lora_weights");
  if (init == "gaussian") return LoraInit::gaussian;
  if (init == "eva" || init == "orthogonal") return LoraInit::kaiming;
  j.refuse(
      "init_lora_weights",
      "true, false, gaussian, eva or orthogonal: others change the base's weights; PEFT's save_pretrained "
      "converts pissa and olora (path_initial_model_for_weight_conversion)");
}

}  // namespace

LoraConfig read_adapter_config(const std::string& path, Exit exit, std::string& base_model) {
  const JsonObject j = JsonObject::read(path, {.exit = exit});
  if (j.text("peft_type") != "LORA") j.refuse("peft_type", "LORA");
  refuse_foreign(j);
  LoraConfig c;
  c.init_lora_weights = read_init(j);
  c.r = j.integer_or("r", 8, 1, kMaxRank);
  c.lora_alpha = j.positive_number_or("lora_alpha", 8);
  c.lora_dropout = j.number_or("lora_dropout", 0);
  if (c.lora_dropout < 0 || c.lora_dropout >= 1) j.refuse("lora_dropout", "at least 0 and below 1");
  const auto targets = read_modules(j, "target_modules");
  if (!targets) j.refuse("target_modules", "a list of names or a string");
  c.target_modules = *targets;
  c.exclude_modules = read_modules(j, "exclude_modules");
  if (j.has("modules_to_save")) c.modules_to_save = j.texts("modules_to_save");
  if (j.has("layers_to_transform")) c.layers_to_transform = j.integers("layers_to_transform");
  c.use_rslora = j.boolean_or("use_rslora", false);
  c.task_type = j.text_or("task_type", c.task_type);
  const auto bias = value_of<LoraBias>(j.text_or("bias", "none"));
  if (!bias) j.refuse("bias", "none, all or lora_only");
  c.bias = *bias;
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

std::string adapter_config_text(const LoraConfig& c, const Attached& attached,
                                const std::string& base_model) {
  auto number = [](double v) {
    return v == std::floor(v) && std::abs(v) < 1e15 ? Json(static_cast<std::int64_t>(v)) : Json(v);
  };
  auto modules = [](const Modules& m) { return std::visit([](const auto& v) { return Json(v); }, m); };
  auto optional = [](const auto& v) { return v ? Json(*v) : Json(nullptr); };
  Json targets = modules(c.target_modules);
  if (targets == "all-linear") {  // as PEFT writes it: the names that it came to
    std::vector<std::string> names;
    for (const std::string& l : attached.linears) {
      const std::string last = l.substr(l.rfind('.') + 1);
      if (std::find(names.begin(), names.end(), last) == names.end()) names.push_back(last);
    }
    targets = names;
  }
  Json ranks = Json::object(), alphas = Json::object();
  for (const auto& [k, v] : c.rank_pattern) ranks[k] = v;
  for (const auto& [k, v] : c.alpha_pattern) alphas[k] = number(v);
  const Json none = nullptr;
  const Json init = c.init_lora_weights == LoraInit::gaussian
                        ? Json(name_of(LoraInit::gaussian))
                        : Json(c.init_lora_weights == LoraInit::kaiming);
  // Every key of PEFT 0.21, sorted as it writes them.
  const Json j = {{"alora_invocation_tokens", none},
                  {"alpha_pattern", alphas},
                  {"arrow_config", none},
                  {"auto_mapping", none},
                  {"base_model_name_or_path", base_model.empty() ? none : Json(base_model)},
                  {"bias", name_of(c.bias)},
                  {"corda_config", none},
                  {"ensure_weight_tying", false},
                  {"eva_config", none},
                  {"exclude_modules", c.exclude_modules ? modules(*c.exclude_modules) : none},
                  {"fan_in_fan_out", attached.inputs_first},
                  {"inference_mode", true},
                  {"init_lora_weights", init},
                  {"kasa_config", none},
                  {"layer_replication", none},
                  {"layers_pattern", none},
                  {"layers_to_transform", optional(c.layers_to_transform)},
                  {"loftq_config", Json::object()},
                  {"lora_alpha", number(c.lora_alpha)},
                  {"lora_bias", false},
                  {"lora_dropout", c.lora_dropout},
                  {"lora_ga_config", none},
                  {"megatron_config", none},
                  {"megatron_core", "megatron.core"},
                  {"modules_to_save", optional(c.modules_to_save)},
                  {"monteclora_config", none},
                  {"peft_type", "LORA"},
                  {"peft_version", "0.21.2"},
                  {"qalora_group_size", 16},
                  {"r", c.r},
                  {"rank_pattern", ranks},
                  {"revision", none},
                  {"target_modules", targets},
                  {"target_parameters", none},
                  {"task_type", c.task_type},
                  {"trainable_token_indices", none},
                  {"use_bdlora", none},
                  {"use_dora", false},
                  {"use_qalora", false},
                  {"use_rslora", c.use_rslora},
                  {"velora_config", none}};
  return json_text(j) + "\n";
}

}  // namespace ft::lora
