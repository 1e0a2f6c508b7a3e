// config.json of a model with several parts, such as images and text: ft computes with its text model, whose
// settings are in text_config.
#pragma once
#include <string>

#include "engine/files/json.h"

namespace ft {

// Returns the settings of the text model: text_config, or the configuration itself if it has none.
JsonObject text_settings(const JsonObject& config);

// Returns the configuration of a model that has only the text model's weights.
// architecture: its class in transformers.
Json text_alone(const Json& config, const std::string& architecture);

}  // namespace ft
