// Models whose head gives classes, and models without a head: transformers' *ForSequenceClassification,
// *ForTokenClassification and *Model.
#pragma once
#include <optional>
#include <string>

#include "app/config/config.h"
#include "models/registry.h"

namespace ft {

// Replaces the head by the objective's: scores of answers, scores of classes, or normed states. Throws
// UserError (config) if transformers has no such model of this family.
void replace_head(MadeModel&, const ObjectiveConfig&, const std::string& config_json);

// Returns config.json, given as text, changed to the objective's model.
std::string headed_config(const std::string& config_json, const ObjectiveConfig&, const ModelInfo&,
                          std::optional<std::int32_t> padding);

}  // namespace ft
