#include "models/registry.h"

#include <algorithm>
#include <array>

#include "engine/io/json.h"
#include "models/llama/model.h"

namespace ft {
namespace {

MadeModel make_llama(const std::string& path, DType dtype) {
  llama::Config c = llama::read_config(path);
  ModelInfo info{.vocab_size = c.vocab_size, .initializer_range = c.initializer_range};
  return {std::make_unique<llama::Llama>(std::move(c), dtype), info};
}

struct Family {
  const char *model_type, *architecture;
  MadeModel (*make)(const std::string& path, DType);
};
constexpr std::array kFamilies = {
    Family{"llama", "LlamaForCausalLM", make_llama},
    Family{"mistral", "MistralForCausalLM", make_llama},
    Family{"qwen2", "Qwen2ForCausalLM", make_llama},
    Family{"qwen3", "Qwen3ForCausalLM", make_llama},
};

}  // namespace

MadeModel make_model(const std::string& path, DType dtype) {
  const JsonObject j = JsonObject::read(path);
  const std::string type = j.text("model_type");
  const auto family =
      std::find_if(kFamilies.begin(), kFamilies.end(), [&](const Family& f) { return type == f.model_type; });
  if (family == kFamilies.end()) {
    std::string known;
    for (const Family& f : kFamilies) known += (known.empty() ? "" : ", ") + std::string(f.model_type);
    j.refuse("model_type", "one of " + known);
  }
  MadeModel made = family->make(path, dtype);
  made.info.model_type = type;
  made.info.architecture = family->architecture;
  return made;
}

}  // namespace ft
