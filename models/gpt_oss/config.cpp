#include "models/gpt_oss/config.h"

#include <algorithm>

namespace ft::gpt_oss {
namespace {

// Defaults of transformers' GptOssConfig for absent keys.
constexpr const char* kUsualRope =
    R"({"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": false,
        "original_max_position_embeddings": 4096})";
decoder::Usual usual() {
  return {
      .key_value_heads = 8, .head_dim = 64, .max_position = 131072, .eps = 1e-5, .rope = {.theta = 150000}};
}

// Every other layer has a window, from the first on, unless layer_types says otherwise.
void read_windows(Config& c, const JsonObject& j) {
  const std::int64_t absent = decoder::when_absent(j, "sliding_window", 128, 0);
  const std::int64_t window =
      absent == 0 && !j.has("sliding_window") ? 0 : j.positive_or("sliding_window", absent);
  for (std::size_t i = 0; i < c.windows.size(); i += 2) c.windows[i] = window;
  decoder::read_layer_types(c, j, window);
}

void read_rope_defaults(Config& c, const JsonObject& j) {
  const bool there = (j.has("rope_scaling") && !j.object("rope_scaling").keys().empty()) ||
                     (j.has("rope_parameters") && !j.object("rope_parameters").keys().empty());
  if (!there) read_rope_scaling(c.rope, JsonObject::parse(kUsualRope, {j.file()}));
}

// Reads the format of the files. MXFP4 cuts rows into blocks of 32 inputs.
void read_format(Config& c, const JsonObject& j) {
  if (!j.has("quantization_config")) return;
  const JsonObject q = j.object("quantization_config");
  c.mxfp4 = q.text_or("quant_method", "bitsandbytes") == "mxfp4";
  if (!c.mxfp4) return;
  for (const char* key : {"hidden_size", "intermediate_size"})
    if (j.integer(key, 1, decoder::kMaxSize) % 32 != 0)
      j.refuse(key, "a multiple of 32, as the blocks of MXFP4 in quantization_config have 32 elements");
  if (!q.has("modules_to_not_convert")) return;
  for (const std::string& module : q.texts("modules_to_not_convert"))
    if (module.find("experts") != std::string::npos)
      q.refuse("modules_to_not_convert", "a list without experts: ft reads all experts in one format");
}

}  // namespace

Config read_config(const std::string& config_json) {
  const JsonObject j = JsonObject::read(config_json);
  Config c{{decoder::read_config(j, usual())}};
  c.qkv_bias = c.o_bias = j.boolean_or("attention_bias", true);
  read_windows(c, j);
  read_rope_defaults(c, j);
  moe::read_experts(c, j);
  c.limit = static_cast<float>(j.positive_number_or("swiglu_limit", 7));
  c.steepness = static_cast<float>(j.positive_number_or("swiglu_alpha", 1.702));
  read_format(c, j);
  return c;
}

}  // namespace ft::gpt_oss
