// Settings beside lora.adapter_name_or_path.
#pragma once
#include "engine/settings/fields.h"
#include "lora/config.h"

namespace ft {

// The adapter's own configuration takes the place of these settings. UserError(config) where `tree` gives one
// that contradicts it. False: no adapter is named, or it cannot be read, which is said by who needs its
// weights.
bool take_adapter_settings(lora::LoraConfig&, const SettingsText& tree);

}  // namespace ft
