#include "models/deepseek/config.h"

#include <algorithm>
#include <array>

namespace ft::deepseek {
namespace {

// Defaults of transformers' config classes for absent keys. 0: the key is required.
struct Absent {
  const char* model_type;
  std::int64_t intermediate_size, max_position;
  double eps;
  bool latent;
  std::int64_t query_rank, rank, plain, rotated, value;
  std::int64_t experts, choices, expert_width, shared_experts, dense_layers, groups, kept_groups;
  double scale;
};
constexpr std::array kAbsent = {
    Absent{"deepseek_v2", 11008, 2048, 1e-6, true, 1536, 512, 128, 64, 128, 64, 0, 1407, 2, 0, 1, 1, 1},
    Absent{"deepseek_v3", 18432, 4096, 1e-6, true, 1536, 512, 128, 64, 128, 256, 8, 2048, 1, 3, 8, 4, 2.5},
    Absent{"glm4_moe_lite", 10240, 202752, 1e-5, true, 768, 512, 192, 64, 256, 64, 4, 1536, 1, 1, 1, 1, 1.8},
    Absent{"glm4_moe", 10944, 131072, 1e-5, false, 0, 0, 0, 0, 0, 128, 8, 1408, 1, 1, 1, 1, 1},
};
const Absent& absent_of(const JsonObject& j) {
  const std::string type = j.text("model_type");
  const auto at = std::ranges::find_if(kAbsent, [&](const Absent& a) { return type == a.model_type; });
  require(at != kAbsent.end(), "a model type of this family");
  return *at;
}

std::int64_t size(const JsonObject& j, const char* key, std::int64_t usual) {
  return usual > 0 ? j.integer_or(key, usual, 1, decoder::kMaxSize) : j.integer(key, 1, decoder::kMaxSize);
}

Latent read_latent(const JsonObject& j, const Absent& a) {
  Latent l;
  l.query_rank = j.integer_or("q_lora_rank", decoder::when_absent(j, "q_lora_rank", a.query_rank, 0), 0,
                              decoder::kMaxSize);
  l.rank = size(j, "kv_lora_rank", a.rank);
  l.heads = {.count = size(j, "num_attention_heads", 0),
             .plain = j.integer_or("qk_nope_head_dim", a.plain, 1, 4096),
             .rotated = j.integer_or("qk_rope_head_dim", a.rotated, 2, 4096),
             .value = j.integer_or("v_head_dim", a.value, 1, 4096)};
  if (l.heads.rotated % 2 != 0) j.refuse("qk_rope_head_dim", "even");
  if (l.heads.count * l.heads.width() > decoder::kMaxSize)
    j.refuse("num_attention_heads", "fewer heads: ft has no room for so many columns");
  // Always rotates neighbours in V2, as transformers' class does.
  l.neighbours = j.text("model_type") == "deepseek_v2" || j.boolean_or("rope_interleave", true);
  return l;
}

// Reads which layers have experts: a list in GLM-4.7-Flash, all but the first ones in the other models.
void read_layers(Config& c, const JsonObject& j, const Absent& a) {
  const std::int64_t dense = j.integer_or("first_k_dense_replace", a.dense_layers, 0);
  if (j.integer_or("moe_layer_freq", 1, 1) != 1)
    j.refuse("moe_layer_freq", "1: ft has experts in every layer after the first ones");
  c.sparse.assign(static_cast<std::size_t>(c.num_hidden_layers), true);
  std::fill_n(c.sparse.begin(), std::min(dense, c.num_hidden_layers), false);
  if (c.model_type != "glm4_moe_lite") return;
  if (!j.has("mlp_layer_types")) {
    if (dense != 1) j.refuse("first_k_dense_replace", "1: other models say so in mlp_layer_types");
    return;
  }
  const std::vector<std::string> types = j.texts("mlp_layer_types");
  if (types.size() != c.sparse.size()) j.refuse("mlp_layer_types", "a list with one entry for each layer");
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i] != "sparse" && types[i] != "dense")
      j.refuse("mlp_layer_types", "a list of sparse and dense");
    c.sparse[i] = types[i] == "sparse";
  }
}

// Reads the groups of experts and their scores. V2 has a softmax, and no groups or groups with the score of
// their best expert; the others have sigmoids and a bias.
void read_groups(Config& c, const JsonObject& j, const Absent& a) {
  const bool v2 = c.model_type == "deepseek_v2";
  const std::string scores = v2 ? "softmax" : "sigmoid";
  if (j.text_or("scoring_func", scores) != scores) j.refuse("scoring_func", scores);
  const std::string method = j.text_or("topk_method", v2 ? "greedy" : "noaux_tc");
  if (v2 && method != "greedy" && method != "group_limited_greedy")
    j.refuse("topk_method", "greedy or group_limited_greedy");
  if (!v2 && method != "noaux_tc") j.refuse("topk_method", "noaux_tc");
  c.rule.sigmoid = c.corrected = !v2;
  if (method == "greedy") return;
  const auto count = [&](const char* key, std::int64_t usual) {
    return j.integer_or(key, decoder::when_absent(j, key, usual, 1), 1, RouteRule::kMostGroups);
  };
  c.rule.groups = static_cast<std::int32_t>(count("n_group", a.groups));
  c.rule.kept = static_cast<std::int32_t>(count("topk_group", a.kept_groups));
  c.rule.best = v2 ? 1 : 2;
  if (c.experts % c.rule.groups != 0)
    j.refuse("n_group", str("a divisor of n_routed_experts (", c.experts, ")"));
  if (c.experts / c.rule.groups < c.rule.best)
    j.refuse("n_group", "a number of groups with at least two experts each");
  if (c.rule.kept > c.rule.groups) j.refuse("topk_group", str("at most n_group (", c.rule.groups, ")"));
}

void read_experts(Config& c, const JsonObject& j, const Absent& a) {
  const bool v2 = c.model_type == "deepseek_v2";
  c.experts = j.integer_or(j.has("n_routed_experts") ? "n_routed_experts" : "num_local_experts", a.experts, 1,
                           std::int64_t{1} << 16);
  c.choices = size(j, "num_experts_per_tok", a.choices);
  c.expert_width = size(j, "moe_intermediate_size", a.expert_width);
  c.shared_width = c.expert_width * j.integer_or("n_shared_experts", a.shared_experts, 1, 4096);
  if (c.shared_width > decoder::kMaxSize)
    j.refuse("n_shared_experts", "fewer: ft has no room for so many columns");
  c.shared_gated = false;
  c.wide_routers = true;  // _keep_in_fp32_modules_strict of transformers' classes
  c.rule.scale = static_cast<float>(j.positive_number_or("routed_scaling_factor", a.scale));
  c.rule.normalised = j.boolean_or("norm_topk_prob", !v2);
  if (v2 && c.rule.normalised)
    j.refuse("norm_topk_prob", "false: transformers does not divide the weights of a V2 model by their sum");
  read_groups(c, j, a);
  if (c.choices > c.experts / c.rule.groups * c.rule.kept)
    j.refuse("num_experts_per_tok", str("at most the number of experts in topk_group groups (",
                                        c.experts / c.rule.groups * c.rule.kept, ")"));
}

}  // namespace

Config read_config(const std::string& config_json) {
  const JsonObject j = JsonObject::read(config_json);
  const Absent& a = absent_of(j);
  std::optional<Latent> latent;
  if (a.latent) latent = read_latent(j, a);
  decoder::Usual usual{.head_dim = latent ? latent->heads.rotated : 0,
                       .max_position = a.max_position,
                       .intermediate_size = a.intermediate_size,
                       .eps = a.eps};
  if (!latent) usual.rope = {.part = 0.5, .parts = true};
  if (!latent) usual.key_value_heads = 8;
  Config c{{decoder::read_config(j, usual)}};
  const bool bias = j.boolean_or("attention_bias", false);
  if (latent) {
    if (c.num_key_value_heads != c.num_attention_heads)
      j.refuse("num_key_value_heads", str("num_attention_heads (", c.num_attention_heads,
                                          "): latent attention has a key for every query"));
    c.head_dim = latent->heads.rotated;  // transformers ignores another number in files
    c.rope = read_rope(j, c.head_dim, c.max_position_embeddings, usual.rope);
    c.o_bias = bias;
    if (c.model_type == "deepseek_v2") c.mlp_bias = j.boolean_or("mlp_bias", false);
  } else {
    c.qk_norm = j.boolean_or("use_qk_norm", false);
  }
  c.qkv_bias = bias;
  c.latent = latent;
  read_layers(c, j, a);
  read_experts(c, j, a);
  const char* key = j.has("num_nextn_predict_layers") ? "num_nextn_predict_layers" : "num_mtp_layers";
  c.guessing_layers = j.integer_or(key, 0, 0, decoder::kMaxLayers);
  return c;
}

}  // namespace ft::deepseek
