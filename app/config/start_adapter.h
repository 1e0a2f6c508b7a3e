// Takes settings from the adapter that a run starts from (lora.adapter_name_or_path).
#pragma once
#include "engine/settings/fields.h"
#include "lora/config.h"

namespace ft {

// Replaces these settings by the adapter's own configuration. Throws UserError (config) if `tree` sets one
// that contradicts it. Returns false if no adapter is named or if it cannot be read; the code that loads its
// weights reports why.
bool take_adapter_settings(lora::LoraConfig&, const SettingsText& tree);

}  // namespace ft
