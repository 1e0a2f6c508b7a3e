#include "models/granite/family.h"

#include <nlohmann/json.hpp>

#include "models/decoder/gguf.h"
#include "models/decoder/parts.h"

namespace ft::granite {
namespace {

struct Config : decoder::Config {
  float embedding_multiplier = 1, attention_multiplier = 1, residual_multiplier = 1, logits_scaling = 1;
};

Config read_config(const std::string& config_json) {
  const JsonObject j = JsonObject::read(config_json);
  Config c{decoder::read_config(j, {})};
  c.qkv_bias = c.o_bias = j.boolean_or("attention_bias", false);
  c.mlp_bias = j.boolean_or("mlp_bias", false);
  const auto factor = [&](const char* key) { return static_cast<float>(j.positive_number_or(key, 1)); };
  c.embedding_multiplier = factor("embedding_multiplier");
  c.attention_multiplier = factor("attention_multiplier");
  c.residual_multiplier = factor("residual_multiplier");
  c.logits_scaling = factor("logits_scaling");
  return c;
}

MadeModel make(const std::string& config_json, DType dtype) {
  const Config c = read_config(config_json);
  CausalLm::Parts p = decoder::make_parts(c, dtype);
  p.embedding.scale = c.embedding_multiplier;
  p.head.scale = 1 / c.logits_scaling;
  for (DecoderBlock& b : p.blocks) {
    b.attention.scale = c.attention_multiplier;
    b.attended.scale = b.fed.scale = c.residual_multiplier;
  }
  return decoder::make_model(std::move(p), c);
}

}  // namespace

GgufModel make_gguf(const std::string& config_json) {
  const Config c = read_config(config_json);
  GgufModel g{.architecture = "granite",
              .vocab_size = c.vocab_size,
              .keys = decoder::gguf_keys(c, "granite", config_json),
              .names = decoder::kGgufNames,
              .rope_factors = decoder::gguf_rope_factors(c.rope),
              .permuted = decoder::gguf_permuted(c)};
  g.keys.emplace_back("granite.embedding_scale", c.embedding_multiplier);
  g.keys.emplace_back("granite.attention.scale", c.attention_multiplier);
  g.keys.emplace_back("granite.residual_scale", c.residual_multiplier);
  g.keys.emplace_back("granite.logit_scale", c.logits_scaling);
  return g;
}

Json config_of_gguf(const GgufKeyReader& keys) {
  Json config = decoder::gguf_config(keys, "granite");
  decoder::add_gguf_biases(keys, config);
  config["embedding_multiplier"] = keys.real_or("embedding_scale", 1);
  config["attention_multiplier"] = keys.real_or("attention.scale", 1);
  config["residual_multiplier"] = keys.real_or("residual_scale", 1);
  config["logits_scaling"] = keys.real_or("logit_scale", 1);
  return config;
}

const Family kFamily{.make = make, .gguf = make_gguf, .from_gguf = config_of_gguf};

}  // namespace ft::granite
