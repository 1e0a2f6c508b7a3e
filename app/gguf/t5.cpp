// What GGUF's architecture t5 stores of a T5 (1.0, 1.1, Flan, mT5), and what its readers assume.
#include "app/gguf/export.h"
#include "engine/io/json.h"
#include "models/registry.h"
#include "models/t5/config.h"

namespace ft {
namespace {

// Readers infer the activation from the tensors in the file, and assume one reach of relative positions.
void require_readable(const t5::Config& c, const std::string& file) {
  constexpr std::int64_t kReach = 128;
  if (c.activation != (c.gated ? Activation::gelu_tanh : Activation::relu))
    throw UserError(Exit::input,
                    printable(file) + ": GGUF's t5 has feed_forward_proj relu or gated-gelu only");
  if (c.max_distance != kReach)
    throw UserError(Exit::input, str(printable(file), ": relative_attention_max_distance is ", c.max_distance,
                                     ", and GGUF's t5 has ", kReach, " only"));
}

}  // namespace

GgufKeys gguf_t5_keys(const std::string& config_json) {
  const t5::Config c = t5::read_config(config_json);
  require_readable(c, config_json);
  const auto tokens = read_decoder_tokens(config_json);
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
  add("decoder_start_token_id", tokens->start);
  add("vocab_size", c.vocab_size);
  // One number that readers look for under either name.
  for (const char* name : {"t5.attention.layer_norm_epsilon", "t5.attention.layer_norm_rms_epsilon"})
    keys.emplace_back(name, c.layer_norm_epsilon);
  return keys;
}

}  // namespace ft
