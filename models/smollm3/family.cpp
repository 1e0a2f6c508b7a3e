#include "models/smollm3/family.h"

#include <nlohmann/json.hpp>

#include "models/decoder/gguf.h"
#include "models/decoder/parts.h"

namespace ft::smollm3 {
namespace {

struct Config : decoder::Config {
  std::vector<bool> rotates;  // by layer
};

// Reads the layers that rotate: no_rope_layers has a 1 for these, in spite of its name.
void read_rotation(Config& c, const JsonObject& j) {
  const std::int64_t interval = j.positive_or("no_rope_layer_interval", 4);
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) c.rotates.push_back((i + 1) % interval != 0);
  if (!j.has("no_rope_layers")) return;
  const std::vector<std::int64_t> given = j.integers("no_rope_layers");
  if (given.size() != c.rotates.size()) j.refuse("no_rope_layers", "a list with one entry for each layer");
  for (std::size_t i = 0; i < given.size(); ++i) c.rotates[i] = given[i] != 0;
}

Config read_config(const std::string& config_json) {
  const JsonObject j = JsonObject::read(config_json);
  Config c{decoder::read_config(j, {.key_value_heads = 4,
                                    .max_position = 32768,
                                    .padding = 128004,
                                    .tied = true,
                                    .rope = {.theta = 2e6}})};
  c.qkv_bias = c.o_bias = j.boolean_or("attention_bias", false);
  c.mlp_bias = j.boolean_or("mlp_bias", false);
  read_rotation(c, j);
  if (!j.has("sliding_window")) return c;
  const std::int64_t window = j.positive("sliding_window");
  if (j.boolean_or("use_sliding_window", false))  // layer_types apply without this flag
    for (std::size_t i = 0; i < c.windows.size(); ++i) c.windows[i] = c.rotates[i] ? 0 : window;
  decoder::read_layer_types(c, j, window);
  return c;
}

MadeModel make(const std::string& config_json, DType dtype) {
  const Config c = read_config(config_json);
  CausalLm::Parts p = decoder::make_parts(c, dtype);
  for (std::size_t i = 0; i < p.blocks.size(); ++i)
    if (!c.rotates[i]) p.blocks[i].attention.rotation = Rotation::none;
  return decoder::make_model(std::move(p), c);
}

// Throws UserError (input) if other layers than every fourth do not rotate: readers of GGUF assume these.
void require_every_fourth(const Config& c, const std::string& config_json) {
  for (std::size_t i = 0; i < c.rotates.size(); ++i)
    if (c.rotates[i] != ((i + 1) % 4 != 0) || c.windows[i] > 0)
      throw UserError(Exit::input,
                      config_json + ": in GGUF every fourth layer does not rotate, and none has a window");
}

}  // namespace

GgufModel make_gguf(const std::string& config_json) {
  const Config c = read_config(config_json);
  require_every_fourth(c, config_json);
  return {.architecture = "smollm3",
          .vocab_size = c.vocab_size,
          .keys = decoder::gguf_keys(c, "smollm3", config_json),
          .names = decoder::kGgufNames,
          .rope_factors = decoder::gguf_rope_factors(c.rope),
          .permuted = decoder::gguf_permuted(c)};
}

Json config_of_gguf(const GgufKeyReader& keys) {
  Json config = decoder::gguf_config(keys, "smollm3");
  decoder::add_gguf_biases(keys, config);
  config["no_rope_layer_interval"] = 4;
  return config;
}

const Family kFamily{.make = make, .gguf = make_gguf, .from_gguf = config_of_gguf};

}  // namespace ft::smollm3
