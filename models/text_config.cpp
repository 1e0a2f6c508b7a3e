#include "models/text_config.h"

#include <nlohmann/json.hpp>

namespace ft {
namespace {

constexpr const char* kText = "text_config";

}  // namespace

JsonObject text_settings(const JsonObject& config) {
  return config.has(kText) ? config.object(kText) : config;
}

Json text_alone(const Json& config, const std::string& architecture) {
  const auto text = config.find(kText);
  if (text == config.end() || !text->is_object()) return config;
  Json alone = *text;
  for (const char* key : {"dtype", "torch_dtype", "transformers_version"})
    if (config.contains(key) && !alone.contains(key)) alone[key] = config[key];
  alone["architectures"] = {architecture};
  return alone;
}

}  // namespace ft
