#include "models/llama/config.h"

#include <algorithm>
#include <array>

namespace ft::llama {
namespace {

// Defaults of transformers' config classes for keys that are absent; a key that is null means something else.
struct Absent {
  const char* model_type;
  std::int64_t key_value_heads, head_dim, window, max_position;  // 0: derived, or none
};
constexpr std::array kAbsent = {
    Absent{"llama", 0, 0, 0, 2048},
    Absent{"mistral", 8, 0, 4096, 131072},
    Absent{"qwen2", 32, 0, 4096, 32768},
    Absent{"qwen3", 32, 128, 4096, 32768},
};
const Absent& absent_of(const std::string& model_type) {
  const auto at = std::find_if(kAbsent.begin(), kAbsent.end(),
                               [&](const Absent& a) { return model_type == a.model_type; });
  return at == kAbsent.end() ? kAbsent[0] : *at;
}

// Reads the windows. Mistral has them in all layers; Qwen in the layers that layer_types names, or from
// max_window_layers on.
void read_windows(Config& c, const JsonObject& j) {
  if (c.model_type == "llama") return;
  const bool qwen = c.model_type != "mistral";
  if (qwen && !j.boolean_or("use_sliding_window", false)) return;
  const std::int64_t usual = decoder::when_absent(j, "sliding_window", absent_of(c.model_type).window, 0);
  if (!j.has("sliding_window") && usual == 0) return;
  const std::int64_t window = j.positive_or("sliding_window", usual);
  const std::int64_t from = qwen ? j.integer_or("max_window_layers", 28, 0) : 0;
  for (std::int64_t i = from; i < c.num_hidden_layers; ++i) c.windows[static_cast<std::size_t>(i)] = window;
  decoder::read_layer_types(c, j, window);
}

void read_biases(Config& c, const JsonObject& j) {
  if (c.model_type == "qwen2") {
    c.qkv_bias = true;
  } else if (c.model_type != "mistral") {
    c.qkv_bias = c.o_bias = j.boolean_or("attention_bias", false);
    c.mlp_bias = c.model_type == "llama" && j.boolean_or("mlp_bias", false);
  }
  c.qk_norm = c.model_type == "qwen3";
}

}  // namespace

Config read_config(const std::filesystem::path& path) {
  const JsonObject j = JsonObject::read(path.string());
  const Absent& absent = absent_of(j.text("model_type"));
  Config c = decoder::read_config(j, {.key_value_heads = absent.key_value_heads,
                                      .head_dim = absent.head_dim,
                                      .max_position = absent.max_position});
  read_windows(c, j);
  read_biases(c, j);
  return c;
}

}  // namespace ft::llama
