// adapter_config.json, reading and writing. Keys that would change the computation and that ft does not have
// are refused by name; the rest of PEFT's many keys is ignored.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "engine/files/file.h"
#include "engine/files/json.h"
#include "lora/kinds.h"
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

// Returns the kind that is folded into weights and has this peft_type; null: there is none.
const AdapterKind* folded_kind(std::string_view type) {
  const auto all = AdapterKind::read_only();
  const auto found =
      std::ranges::find(all, type, [](const AdapterKind* k) -> std::string_view { return k->peft_type; });
  return found == all.end() ? nullptr : *found;
}

const AdapterKind& read_kind(const JsonObject& j, Exit exit, KindsRead kinds) {
  const std::string type = j.text("peft_type");
  if (const AdapterKind* folded = folded_kind(type)) {
    if (kinds == KindsRead::all) return *folded;
    throw UserError(exit,
                    str(printable(j.file()), ": peft_type: ft reads adapters of ", folded->title,
                        " to generate, evaluate and merge, and for nothing else; make a model of it with "
                        "ft merge, and use that"));
  }
  std::string all;
  for (const AdapterKind* kind : AdapterKind::all()) {
    if (type == kind->peft_type) return *kind;
    all += str(all.empty() ? "" : kind == AdapterKind::all().back() ? " or " : ", ", kind->peft_type);
  }
  j.refuse("peft_type", all);
}

// Refuses settings that compute another update than B A x. fan_in_fan_out is allowed: PEFT ignores it on
// Linears.
void refuse_foreign(const JsonObject& j) {
  for (const char* key : {"use_qalora", "use_bdlora", "layer_replication", "arrow_config", "kasa_config",
                          "velora_config", "monteclora_config"}) {
    if (!j.has(key)) continue;
    const Json& v = j.json()[key];
    if (v != false && !(v.is_structured() && v.empty()))
      j.refuse(key, "false or null: ft does not compute this kind of LoRA");
  }
}

// Refuses values that mean an adapter which ft does not compute.
void refuse_other_values(const JsonObject& j, const AdapterKind& kind) {
  for (const PeftKey& key : kind.keys)
    if (key.only && j.has(key.name) && j.json()[key.name] != Json::parse(key.value))
      j.refuse(key.name, str(key.value, ": ft has no other variants of ", kind.title));
}

// Returns the initialization of a kind other than LoRA.
LoraInitWord read_init(const JsonObject& j, const AdapterKind& kind) {
  const char* key = kind.key_of("init_lora_weights");
  if (!key || !j.has(key)) return LoraInit::kaiming;
  const std::string word = j.is_bool(key)   ? (j.boolean(key) ? "true" : "false")
                           : j.is_text(key) ? j.text(key)
                                            : "";
  std::string all;
  for (const LoraInit init : kind.starts) {
    if (word == name_of(init)) return init;
    all += (all.empty() ? "" : init == kind.starts.back() ? " or " : ", ") + std::string(name_of(init));
  }
  j.refuse(key, str(all, ": ft has no other variants of ", kind.title));
}

// Returns the initialization of A and B. With pissa and olora, PEFT saved the adapter without converting it:
// its base lacks the initial A and B. eva only chose initial values, so it is read as true.
LoraInitWord read_init(const JsonObject& j) {
  if (!j.has("init_lora_weights")) return LoraInit::kaiming;
  if (j.is_bool("init_lora_weights"))
    return j.boolean("init_lora_weights") ? LoraInit::kaiming : LoraInit::random_b;
  const std::string init = j.text("init_lora_weights");
  if (init == "eva") return LoraInit::kaiming;
  const auto start = start_of(init);
  if (!start || init == "true" || init == "false" || init == "loftq")
    j.refuse(
        "init_lora_weights",
        "true, false, gaussian, eva, orthogonal, olora, pissa, pissa_niter_N or lora_ga: with others PEFT "
        "changes "
        "the base's weights in ways that ft does not know");
  if (start->iterations > 0) return init;
  return start->init;
}

Json eva_as_json(const EvaConfig& c) {
  return {{"adjust_scaling_factors", c.adjust_scaling_factors},
          {"label_mask_value", c.label_mask_value},
          {"rho", c.rho},
          {"tau", c.tau},
          {"use_label_mask", c.use_label_mask},
          {"whiten", c.whiten}};
}

Json lora_ga_as_json(const LoraGaConfig& c) {
  return {{"direction", name_of(c.direction)}, {"scale", name_of(c.scale)}, {"stable_gamma", c.stable_gamma}};
}

Json init_as_json(const LoraInitWord& init) {
  if (const auto* text = std::get_if<std::string>(&init)) return *text;
  switch (const auto value = std::get<LoraInit>(init)) {
    case LoraInit::kaiming:
    case LoraInit::loftq:
      return true;
    case LoraInit::random_b:
      return false;
    default:
      return name_of(value);
  }
}

// Returns the keys with a value that neither ft nor PEFT 0.21 knows.
std::vector<std::string> unknown_keys(const JsonObject& j, const AdapterKind& kind) {
  LoraConfig of_kind;
  of_kind.peft_type = &kind;
  const Json known = Json::parse(adapter_config_text(of_kind, {}, ""));
  std::vector<std::string> unknown;
  for (const auto& [key, value] : j.json().items()) {
    const bool silent =
        value.is_null() || value == false || value == "" || (value.is_structured() && value.empty());
    if (!silent && !known.contains(key)) unknown.push_back(key);
  }
  return unknown;
}

}  // namespace

std::optional<LoraStart> start_of(const LoraInitWord& word) {
  if (const auto* init = std::get_if<LoraInit>(&word)) return LoraStart{*init};
  const std::string& text = std::get<std::string>(word);
  if (const auto init = value_of<LoraInit>(text)) return LoraStart{*init};
  constexpr std::string_view kNear = "pissa_niter_";
  if (!text.starts_with(kNear)) return std::nullopt;
  std::int64_t n = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data() + kNear.size(), end, n);
  if (error != std::errc{} || at != end || n < 1 || n > 1000) return std::nullopt;
  return LoraStart{LoraInit::pissa, n};
}

std::vector<TrainedTokens> trained_tokens(const JsonText& text, const std::string& setting, Exit exit) {
  if (text.text.empty()) return {};
  const auto refuse = [&](const std::string& what) { throw UserError(exit, str(setting, ": ", what)); };
  const Json j = Json::parse(text.text);
  if (!j.is_structured() || j.empty()) refuse("is not a list of token ids, or an object with such lists");
  std::vector<TrainedTokens> all;
  const auto add = [&](const std::string& module, const Json& ids) {
    TrainedTokens& t = all.emplace_back(module);
    if (!ids.is_array() || ids.empty()) refuse("is not a list of token ids, or an object with such lists");
    for (const Json& id : ids) {
      if (!id.is_number_integer()) refuse(str(printable(id.dump()), " is not a token's id"));
      t.ids.push_back(id.get<std::int64_t>());
    }
  };
  if (j.is_array()) add("", j);
  if (j.is_object())
    for (const auto& [module, ids] : j.items()) add(module, ids);
  return all;
}

std::string in_peft(const std::string& name) {
  constexpr std::string_view kNeoXHead = "embed_out";
  const bool head = name == kNeoXHead || name.starts_with(std::string(kNeoXHead) + ".");
  return head ? "lm_head" + name.substr(kNeoXHead.size()) : name;
}

std::string nested_name(const std::string& name, const std::string& nested) {
  constexpr std::string_view kModel = "model.";
  const std::size_t at = name.starts_with(kPeftPrefix) ? std::string_view(kPeftPrefix).size() : 0;
  if (nested.empty() || name.compare(at, kModel.size(), kModel) != 0) return name;
  return name.substr(0, at + kModel.size()) + nested + name.substr(at + kModel.size());
}

bool is_folded(const std::string& folder) {
  const std::string file = join_path(folder, "adapter_config.json");
  if (!path_exists(file)) return false;
  const JsonObject j = JsonObject::read(file);
  return j.is_text("peft_type") && folded_kind(j.text("peft_type"));
}

AdapterConfig read_adapter_config(const std::string& path, Exit exit, KindsRead kinds) {
  const JsonObject j = JsonObject::read(path, {.exit = exit});
  const AdapterKind& kind = read_kind(j, exit, kinds);
  const bool lora = &kind == &kinds::kLora;
  if (lora) refuse_foreign(j);
  AdapterConfig result;
  LoraConfig& c = result.lora;
  c.peft_type = &kind;
  // Returns the key of a setting; empty: the file has none.
  const auto key = [&](const char* setting) {
    const char* name = kind.key_of(setting);
    return name && j.has(name) ? std::string_view(name) : std::string_view();
  };
  const auto has = [&](const char* setting) { return !key(setting).empty(); };
  c.init_lora_weights = lora ? read_init(j) : read_init(j, kind);
  refuse_other_values(j, kind);
  const char *const rank = kind.key_of("r"), *const alpha = kind.key_of("lora_alpha");
  c.r = rank ? j.integer_or(rank, kind.rank, 1, kMaxRank) : kind.rank;
  if (alpha) c.lora_alpha = j.positive_number_or(alpha, 8);
  if (const auto dropout = key("lora_dropout"); !dropout.empty()) {
    c.lora_dropout = j.number(dropout);
    if (c.lora_dropout < 0 || c.lora_dropout >= 1) j.refuse(dropout, "at least 0 and below 1");
  }
  const auto modules = [&](const char* setting) {
    return has(setting) ? read_modules(j, setting) : std::optional<Modules>();
  };
  const auto targets = modules("target_modules");
  if (has("target_parameters") && !j.texts("target_parameters").empty())
    c.target_parameters = j.texts("target_parameters");
  if (!targets && !c.target_parameters) j.refuse("target_modules", "a list of names or a string");
  c.target_modules = targets.value_or(Modules{std::vector<std::string>{}});
  c.exclude_modules = modules("exclude_modules");
  if (has("modules_to_save")) c.modules_to_save = j.texts("modules_to_save");
  if (has("layers_to_transform")) c.layers_to_transform = j.integers("layers_to_transform");
  const auto pattern = modules("layers_pattern");
  if (pattern && *pattern != Modules("") && *pattern != Modules(std::vector<std::string>{}))
    c.layers_pattern = pattern;
  if (const char* tokens = "trainable_token_indices"; has(tokens)) {
    c.trainable_token_indices.text = j.json()[tokens].dump();
    trained_tokens(c.trainable_token_indices, str(path, ": ", tokens), exit);
  }
  c.ensure_weight_tying = has("ensure_weight_tying") && j.boolean("ensure_weight_tying");
  c.use_rslora = has("use_rslora") && j.boolean("use_rslora");
  c.use_dora = has("use_dora") && j.boolean("use_dora");
  c.lora_bias = has("lora_bias") && j.boolean("lora_bias");
  if (const char* invocation = "alora_invocation_tokens"; has(invocation))
    c.alora_invocation_tokens = j.integers(invocation);
  if (has("random_seed")) c.random_seed = j.integer("random_seed", 0);
  if (has("oft_block_size")) c.oft_block_size = j.integer("oft_block_size", 2, kMaxRank);
  c.block_share = has("block_share") && j.boolean("block_share");
  if (const char* terms = "num_cayley_neumann_terms"; has(terms))
    c.num_cayley_neumann_terms = j.integer(terms, 2, 100);
  if (kind.before_versions && !j.has("peft_version"))
    result.warnings.push_back(str(path, ": ", kind.before_versions));
  c.task_type = j.text_or("task_type", c.task_type);
  if (has("bias")) {
    const std::string word = j.text("bias");
    const auto bias = word == kind.lora_only ? LoraBias::lora_only : value_of<LoraBias>(word);
    if (!bias || (*bias == LoraBias::lora_only && word != kind.lora_only))
      j.refuse("bias", str("none, all or ", kind.lora_only));
    c.bias = *bias;
  }
  auto values = [&](const char* setting, auto& out, auto read) {
    if (!has(setting)) return;
    const JsonObject o = j.object(setting);
    for (const std::string& k : o.keys()) out.emplace_back(k, read(o, k));
  };
  values("rank_pattern", c.rank_pattern,
         [](const JsonObject& o, auto& k) { return o.integer(k, 1, kMaxRank); });
  values("alpha_pattern", c.alpha_pattern, [](const JsonObject& o, auto& k) { return o.number(k); });
  result.base_model = j.has("base_model_name_or_path") ? j.text("base_model_name_or_path") : "";
  for (const std::string& unknown : unknown_keys(j, kind))
    result.warnings.push_back(str(path, ": ", printable(unknown), " is not a setting of ", kind.title,
                                  " that ft knows; it is ignored, and the adapter may compute another "
                                  "function than in the program that made it"));
  return result;
}

namespace {

// Returns target_modules that match modules of the text model only. PEFT looks for a list's names in all
// parts of the larger model. Keeps complete names and expressions.
Json only_inside(const Json& targets, const std::string& nested) {
  if (!targets.is_array()) return targets;
  std::string names;
  for (const Json& t : targets) {
    const auto name = t.get<std::string>();
    if (name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") !=
        name.npos)
      return targets;
    names += (names.empty() ? "" : "|") + name;
  }
  if (names.empty()) return targets;
  return "(.*\\.)?" + nested.substr(0, nested.size() - 1) + "\\.(.*\\.)?(" + names + ")";
}

// Returns target_modules of an adapter inside a larger model: an expression, or the modules' complete names
// where PEFT allows no expression (layers_to_transform) or an expression would miss the head.
Json targets_inside(const Json& targets, const LoraConfig& c, const Attached& attached) {
  std::vector<std::string> names;
  bool outside = false;
  const auto add = [&](const std::string& module) {
    const std::string name = in_peft(module);
    names.push_back(nested_name(name, attached.nested));
    outside |= names.back() == name;
  };
  for (const std::string& l : attached.linears) add(l);
  if (attached.embedding) add(attached.embedding_module);
  if (attached.tied_lora) add(attached.head);
  if (!targets.is_array() || names.empty() || (!outside && !c.layers_to_transform))
    return only_inside(targets, attached.nested);
  return names;
}

// Adds the settings that LoRA does not have.
Json with_more(Json j, const LoraConfig& c) {
  j["random_seed"] = c.random_seed ? Json(*c.random_seed) : Json();
  j["oft_block_size"] = c.oft_block_size;
  j["block_share"] = c.block_share;
  j["num_cayley_neumann_terms"] = c.num_cayley_neumann_terms;
  return j;
}

// Returns the adapter_config.json of a kind that has these values under LoRA's keys and its own.
Json with_keys_of(const AdapterKind& kind, const Json& lora) {
  nlohmann::json j = {{"peft_type", kind.peft_type}};  // sorted, as PEFT writes the keys
  for (const char* key :
       {"auto_mapping", "base_model_name_or_path", "inference_mode", "peft_version", "revision", "task_type"})
    j[key] = lora.at(key);
  for (const PeftKey& key : kind.keys) j[key.name] = key.of ? lora.at(key.of) : Json::parse(key.value);
  if (j.contains("bias") && j["bias"] == "lora_only") j["bias"] = kind.lora_only;
  return j;
}

}  // namespace

std::string adapter_config_text(const LoraConfig& c, const Attached& attached,
                                const std::string& base_model) {
  auto number = [](double v) {
    return v == std::floor(v) && std::abs(v) < 1e15 ? Json(static_cast<std::int64_t>(v)) : Json(v);
  };
  auto modules = [](const Modules& m) { return std::visit([](const auto& v) { return Json(v); }, m); };
  auto optional = [](const auto& v) { return v ? Json(*v) : Json(nullptr); };
  Json targets = modules(c.target_modules);
  if (targets == "all-linear") {  // PEFT writes the names of the chosen modules
    std::vector<std::string> names;
    for (const std::string& l : attached.linears) {
      const std::string last = in_peft(l.substr(l.rfind('.') + 1));
      if (std::find(names.begin(), names.end(), last) == names.end()) names.push_back(last);
    }
    targets = names;
  }
  if (!attached.nested.empty()) targets = targets_inside(targets, c, attached);
  Json ranks = Json::object(), alphas = Json::object();
  for (const auto& [k, v] : c.rank_pattern) ranks[k] = v;
  for (const auto& [k, v] : c.alpha_pattern) alphas[k] = number(v);
  const Json none = nullptr;
  const bool by_eva = c.init_lora_weights == LoraInitWord(LoraInit::eva);
  const Json eva = by_eva ? eva_as_json(c.eva_config) : none;
  const bool by_gradients = c.init_lora_weights == LoraInitWord(LoraInit::lora_ga);
  const JsonText& tokens = c.trainable_token_indices;
  // All keys of PEFT 0.21's LoraConfig, sorted as PEFT writes them.
  const Json j = {{"alora_invocation_tokens", optional(c.alora_invocation_tokens)},
                  {"alpha_pattern", alphas},
                  {"arrow_config", none},
                  {"auto_mapping", none},
                  {"base_model_name_or_path", base_model.empty() ? none : Json(base_model)},
                  {"bias", name_of(c.bias)},
                  {"corda_config", none},
                  {"ensure_weight_tying", c.ensure_weight_tying},
                  {"eva_config", eva},
                  {"exclude_modules", c.exclude_modules ? modules(*c.exclude_modules) : none},
                  {"fan_in_fan_out", attached.inputs_first},
                  {"inference_mode", true},
                  {"init_lora_weights", init_as_json(c.init_lora_weights)},
                  {"kasa_config", none},
                  {"layer_replication", none},
                  {"layers_pattern", c.layers_pattern ? modules(*c.layers_pattern) : none},
                  {"layers_to_transform", optional(c.layers_to_transform)},
                  {"loftq_config", Json::object()},
                  {"lora_alpha", number(c.lora_alpha)},
                  {"lora_bias", c.lora_bias},
                  {"lora_dropout", c.lora_dropout},
                  {"lora_ga_config", by_gradients ? lora_ga_as_json(c.lora_ga_config) : none},
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
                  {"target_parameters", optional(c.target_parameters)},
                  {"task_type", c.task_type},
                  {"trainable_token_indices", tokens.text.empty() ? none : Json::parse(tokens.text)},
                  {"use_bdlora", none},
                  {"use_dora", c.use_dora},
                  {"use_qalora", false},
                  {"use_rslora", c.use_rslora},
                  {"velora_config", none}};
  return json_text(c.peft_type == &kinds::kLora ? j : with_keys_of(*c.peft_type, with_more(j, c))) + "\n";
}

}  // namespace ft::lora
