// Describes T5 (1.0, 1.1, Flan, mT5) as GGUF's architecture t5, and checks the assumptions of its readers.
#include <array>
#include <nlohmann/json.hpp>

#include "engine/core/error.h"
#include "models/t5/config.h"
#include "models/t5/family.h"

namespace ft::t5 {
namespace {

constexpr std::array kModules = {GgufName{"shared", "token_embd"},
                                 GgufName{"encoder.embed_tokens", "token_embd"},
                                 GgufName{"decoder.embed_tokens", "token_embd"},
                                 GgufName{"encoder.final_layer_norm", "enc.output_norm"},
                                 GgufName{"decoder.final_layer_norm", "dec.output_norm"},
                                 GgufName{"lm_head", "output"}};
constexpr std::array kOfEncoder = {
    GgufName{"layer.0.layer_norm", "attn_norm"},       GgufName{"layer.1.layer_norm", "ffn_norm"},
    GgufName{"layer.1.DenseReluDense.wi", "ffn_up"},   GgufName{"layer.1.DenseReluDense.wi_0", "ffn_gate"},
    GgufName{"layer.1.DenseReluDense.wi_1", "ffn_up"}, GgufName{"layer.1.DenseReluDense.wo", "ffn_down"}};
constexpr std::array kOfDecoder = {
    GgufName{"layer.0.layer_norm", "attn_norm"}, GgufName{"layer.1.layer_norm", "cross_attn_norm"},
    GgufName{"layer.1.EncDecAttention.q", "cross_attn_q"},
    GgufName{"layer.1.EncDecAttention.k", "cross_attn_k"},
    GgufName{"layer.1.EncDecAttention.v", "cross_attn_v"},
    GgufName{"layer.1.EncDecAttention.o", "cross_attn_o"},
    // Unused, but stored in T5's first checkpoints.
    GgufName{"layer.1.EncDecAttention.relative_attention_bias", "cross_attn_rel_b"},
    GgufName{"layer.2.layer_norm", "ffn_norm"}, GgufName{"layer.2.DenseReluDense.wi", "ffn_up"},
    GgufName{"layer.2.DenseReluDense.wi_0", "ffn_gate"}, GgufName{"layer.2.DenseReluDense.wi_1", "ffn_up"},
    GgufName{"layer.2.DenseReluDense.wo", "ffn_down"}};
constexpr std::array kOfSelfAttention = {
    GgufName{"layer.0.SelfAttention.q", "attn_q"}, GgufName{"layer.0.SelfAttention.k", "attn_k"},
    GgufName{"layer.0.SelfAttention.v", "attn_v"}, GgufName{"layer.0.SelfAttention.o", "attn_o"},
    GgufName{"layer.0.SelfAttention.relative_attention_bias", "attn_rel_b"}};
constexpr std::array kBlocks = {GgufBlocks{"encoder.block.", "enc.blk.", kOfEncoder, kOfSelfAttention},
                                GgufBlocks{"decoder.block.", "dec.blk.", kOfDecoder, kOfSelfAttention}};

// Throws UserError (input) unless readers would compute this model: they infer the activation from the
// tensors in the file, and assume one max_distance of relative positions.
void require_readable(const Config& c, const std::string& file) {
  constexpr std::int64_t kReach = 128;
  if (c.activation != (c.gated ? Activation::gelu_tanh : Activation::relu))
    throw UserError(Exit::input,
                    printable(file) + ": GGUF's t5 has feed_forward_proj relu or gated-gelu only");
  if (c.max_distance != kReach)
    throw UserError(Exit::input, str(printable(file), ": relative_attention_max_distance is ", c.max_distance,
                                     ", and GGUF's t5 has ", kReach, " only"));
}

}  // namespace

// Always writes the head, even if it is the embedding's table: readers do not scale the states before the
// head, so the written head contains the scale.
GgufModel make_gguf(const std::string& config_json) {
  const Config c = read_config(config_json);
  require_readable(c, config_json);
  const JsonObject j = JsonObject::read(config_json);
  GgufKeys keys;
  const auto add = [&](const char* name, std::int64_t value) {
    keys.emplace_back(str("t5.", name), static_cast<std::uint32_t>(value));
  };
  add("context_length", j.integer_or("n_positions", 512, 1, std::int64_t{1} << 30));
  add("embedding_length", c.d_model);
  add("feed_forward_length", c.d_ff);
  add("block_count", c.num_layers);
  add("decoder_block_count", c.num_decoder_layers);
  add("attention.head_count", c.num_heads);
  add("attention.key_length", c.d_kv);
  add("attention.value_length", c.d_kv);
  add("attention.relative_buckets_count", c.buckets);
  add("decoder_start_token_id", kFamily.decoder_tokens(j).start);
  add("vocab_size", c.vocab_size);
  // Readers look for this number under either name.
  for (const char* name : {"t5.attention.layer_norm_epsilon", "t5.attention.layer_norm_rms_epsilon"})
    keys.emplace_back(name, c.layer_norm_epsilon);
  return {.architecture = "t5",
          .vocab_size = c.vocab_size,
          .keys = std::move(keys),
          .names = {kModules, kBlocks},
          .tied_head = true};
}

Json config_of_gguf(const GgufKeyReader& keys) {
  const std::int64_t layers = keys.whole("block_count");
  const bool gated = keys.has_tensor("enc.blk.0.ffn_gate.weight"), head = keys.has_tensor("output.weight");
  return {{"model_type", "t5"},
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
          {"tie_word_embeddings", !head},
          {"decoder_start_token_id", static_cast<std::int64_t>(keys.real_or("decoder_start_token_id", 0))}};
}

}  // namespace ft::t5
