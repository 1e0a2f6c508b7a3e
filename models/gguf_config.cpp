#include "models/gguf_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/core/error.h"
#include "engine/io/json.h"
#include "models/rope.h"

namespace ft {
namespace {

// The keys of one architecture.
class Keys {
 public:
  explicit Keys(const GgufFile& file) : file_(file), architecture_(text("general.architecture")) {}

  const std::string& architecture() const { return architecture_; }
  [[noreturn]] void refuse(const std::string& what) const {
    throw UserError(Exit::input, str(printable(file_.path()), ": ", what));
  }
  std::string own(const std::string& key) const { return architecture_ + "." + key; }
  bool has(const std::string& key) const { return file_.find(own(key)) != nullptr; }
  bool has_tensor(const std::string& name) const { return find_tensor(name) != nullptr; }
  const GgufTensor* find_tensor(const std::string& name) const {
    const auto at = std::ranges::find(file_.tensors(), name, &GgufTensor::name);
    return at == file_.tensors().end() ? nullptr : &*at;
  }

  std::string text(const std::string& key) const {
    const GgufValue* v = file_.find(key);
    const auto* t = v ? std::get_if<std::string>(v) : nullptr;
    if (!t) refuse(key + " is missing, or not a text");
    return *t;
  }
  // A positive whole number; of a list, which says it for each layer, the one that all share.
  std::int64_t whole(const std::string& key) const {
    const GgufValue* v = file_.find(own(key));
    if (!v) refuse(own(key) + " is missing");
    const double n = number_of(*v, key);
    if (!(n >= 1 && n <= 1 << 30) || n != std::floor(n)) refuse(own(key) + " is not a positive whole number");
    return static_cast<std::int64_t>(n);
  }
  std::int64_t whole_or(const std::string& key, std::int64_t otherwise) const {
    return has(key) ? whole(key) : otherwise;
  }
  double real_or(const std::string& key, double otherwise) const {
    const GgufValue* v = file_.find(own(key));
    const double x = v ? number_of(*v, key) : otherwise;
    if (!std::isfinite(x)) refuse(own(key) + " is not finite");
    return x;
  }
  // Rows of the embedding's table.
  std::int64_t vocab_size() const {
    const GgufTensor* table = find_tensor("token_embd.weight");
    if (!table || table->shape.size() != 2) refuse("it has no token_embd.weight");
    return table->shape[0];
  }
  void add_id(Json& config, const char* name, const std::string& key) const {
    const GgufValue* v = file_.find("tokenizer.ggml." + key + "_token_id");
    if (const auto* id = v ? std::get_if<std::uint32_t>(v) : nullptr) config[name] = *id;
  }
  const GgufFile& file() const { return file_; }

 private:
  double number_of(const GgufValue& value, const std::string& key) const {
    if (const auto* list = std::get_if<std::vector<std::int32_t>>(&value)) {
      if (list->empty() || std::ranges::count(*list, list->front()) != std::ssize(*list))
        refuse(own(key) + " differs between layers, which ft does not have");
      return list->front();
    }
    return std::visit(
        [&](const auto& v) -> double {
          if constexpr (requires { static_cast<double>(v); })
            return static_cast<double>(v);
          else
            refuse(own(key) + " is not a number");
        },
        value);
  }

  const GgufFile& file_;
  std::string architecture_;
};

// What llama3 positions were made with: GGUF holds only the divisors that follow.
Json llama3_positions(const Keys& keys, const GgufTensor& stored, Rope rope) {
  const std::vector<float> factors = keys.file().read(stored);
  rope.type = Rope::Type::normal;
  const auto usual = inverse_frequencies(rope, 0);
  rope.type = Rope::Type::llama3;
  rope.factor = factors.empty() ? 1 : *std::ranges::max_element(factors);
  rope.low_freq_factor = 1;
  rope.high_freq_factor = 4;
  for (double length = 16; length <= 1 << 20; length *= 2) {  // 8,192 of LLaMA 3.1 to 3.3
    rope.original_max_position = length;
    const auto stretched = inverse_frequencies(rope, 0);
    bool same = factors.size() == usual.size() && rope.factor > 1;
    for (std::size_t i = 0; same && i < usual.size(); ++i)
      same = std::abs(usual[i] / stretched[i] - factors[i]) <= 1e-3f * factors[i];
    if (same)
      return {{"rope_type", "llama3"},
              {"factor", rope.factor},
              {"low_freq_factor", 1.0},
              {"high_freq_factor", 4.0},
              {"original_max_position_embeddings", static_cast<std::int64_t>(length)}};
  }
  keys.refuse("rope_freqs.weight are not the factors of LLaMA 3's positions, which ft could read");
}

void add_positions(const Keys& keys, Json& config, std::int64_t head_dim) {
  const double theta = keys.real_or("rope.freq_base", 10000);
  config["rope_theta"] = theta;
  Rope rope;
  rope.theta = theta;
  rope.head_dim = head_dim;
  if (const GgufTensor* factors = keys.find_tensor("rope_freqs.weight")) {
    config["rope_scaling"] = llama3_positions(keys, *factors, rope);
    return;
  }
  if (!keys.has("rope.scaling.type")) return;
  const std::string type = keys.text(keys.own("rope.scaling.type"));
  if (type == "none") return;
  if (type != "linear" && type != "yarn") keys.refuse("positions of type " + printable(type));
  Json scaling = {{"rope_type", type}, {"factor", keys.real_or("rope.scaling.factor", 1)}};
  if (type == "yarn") {
    scaling["original_max_position_embeddings"] = keys.whole("rope.scaling.original_context_length");
    const double factor = scaling["factor"];
    if (keys.has("rope.scaling.attn_factor"))  // of YaRN's usual factor
      scaling["attention_factor"] =
          keys.real_or("rope.scaling.attn_factor", 1) * (factor <= 1 ? 1 : 1 + 0.1 * std::log(factor));
  }
  config["rope_scaling"] = scaling;
}

Json llama_config(const Keys& keys) {
  const std::string type = keys.architecture();
  const std::int64_t heads = keys.whole("attention.head_count"), hidden = keys.whole("embedding_length");
  const std::int64_t head_dim =
      keys.whole_or("attention.key_length", keys.whole_or("rope.dimension_count", hidden / heads));
  if (keys.whole_or("rope.dimension_count", head_dim) != head_dim)
    keys.refuse("only a part of each head has positions, which ft does not read from GGUF");
  if (keys.whole_or("attention.value_length", head_dim) != head_dim)
    keys.refuse("keys and values of different lengths");
  if (keys.has("expert_count") && keys.real_or("expert_count", 0) > 0)
    keys.refuse("a mixture of experts, which ft does not read from GGUF");
  Json config = {{"architectures",
                  {type == "llama"   ? "LlamaForCausalLM"
                   : type == "qwen2" ? "Qwen2ForCausalLM"
                                     : "Qwen3ForCausalLM"}},
                 {"model_type", type},
                 {"vocab_size", keys.vocab_size()},
                 {"hidden_size", hidden},
                 {"intermediate_size", keys.whole("feed_forward_length")},
                 {"num_hidden_layers", keys.whole("block_count")},
                 {"num_attention_heads", heads},
                 {"num_key_value_heads", keys.whole_or("attention.head_count_kv", heads)},
                 {"head_dim", head_dim},
                 {"hidden_act", "silu"},
                 {"max_position_embeddings", keys.whole("context_length")},
                 {"rms_norm_eps", keys.real_or("attention.layer_norm_rms_epsilon", 1e-6)},
                 {"tie_word_embeddings", !keys.has_tensor("output.weight")}};
  if (type != "qwen2") config["attention_bias"] = keys.has_tensor("blk.0.attn_q.bias");
  if (type == "llama") config["mlp_bias"] = keys.has_tensor("blk.0.ffn_up.bias");
  add_positions(keys, config, head_dim);
  return config;
}

Json t5_config(const Keys& keys) {
  const std::int64_t layers = keys.whole("block_count");
  const bool gated = keys.has_tensor("enc.blk.0.ffn_gate.weight"), head = keys.has_tensor("output.weight");
  Json config = {{"architectures", {"T5ForConditionalGeneration"}},
                 {"model_type", "t5"},
                 {"is_encoder_decoder", true},
                 {"vocab_size", keys.vocab_size()},
                 {"d_model", keys.whole("embedding_length")},
                 {"d_ff", keys.whole("feed_forward_length")},
                 {"d_kv", keys.whole("attention.key_length")},
                 {"num_layers", layers},
                 {"num_decoder_layers", keys.whole_or("decoder_block_count", layers)},
                 {"num_heads", keys.whole("attention.head_count")},
                 {"relative_attention_num_buckets", keys.whole("attention.relative_buckets_count")},
                 {"relative_attention_max_distance", 128},
                 {"feed_forward_proj", gated ? "gated-gelu" : "relu"},
                 {"layer_norm_epsilon", keys.real_or("attention.layer_norm_epsilon",
                                                     keys.real_or("attention.layer_norm_rms_epsilon", 1e-6))},
                 {"n_positions", keys.whole_or("context_length", 512)},
                 {"tie_word_embeddings", !head}};
  const GgufValue* start = keys.file().find("t5.decoder_start_token_id");
  const auto* id = start ? std::get_if<std::uint32_t>(start) : nullptr;
  config["decoder_start_token_id"] = id ? *id : 0;
  return config;
}

}  // namespace

std::string config_of_gguf(const GgufFile& file) {
  const Keys keys(file);
  const std::string& type = keys.architecture();
  Json config;
  if (type == "llama" || type == "qwen2" || type == "qwen3")
    config = llama_config(keys);
  else if (type == "t5")
    config = t5_config(keys);
  else
    keys.refuse("architecture " + printable(type) + "; ft reads llama, qwen2, qwen3 and t5 from GGUF");
  keys.add_id(config, "bos_token_id", "bos");
  keys.add_id(config, "eos_token_id", "eos");
  keys.add_id(config, "pad_token_id", "padding");
  config["torch_dtype"] = name_of(gguf_base_type(file));
  return json_text(config) + "\n";
}

}  // namespace ft
