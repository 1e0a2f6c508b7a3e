#include "app/config/start_adapter.h"

#include <algorithm>

#include "engine/files/file.h"
#include "lora/peft_config.h"

namespace ft {
namespace {

// Returns a value that compares equal if only the order differs: sorts lists and keys. An empty list becomes
// null.
nlohmann::json comparable(const Json& j) {
  nlohmann::json sorted = nlohmann::json::parse(j.dump());
  if (sorted.is_array()) std::sort(sorted.begin(), sorted.end());
  return sorted.empty() && sorted.is_array() ? nlohmann::json() : sorted;
}

}  // namespace

bool take_adapter_settings(lora::LoraConfig& config, const SettingsText& tree) {
  if (!config.adapter_name_or_path) return false;
  const std::string file = join_path(*config.adapter_name_or_path, "adapter_config.json");
  lora::LoraConfig adapter;
  try {
    adapter = lora::read_adapter_config(file, Exit::config).lora;
  } catch (const UserError&) {
    return false;
  }
  adapter.adapter_name_or_path = config.adapter_name_or_path;
  const Json wanted = write_settings(config), own = write_settings(adapter);
  Reading mistakes(tree, "", nullptr);
  for (const auto& [key, _] : tree.value["lora"].items()) {
    if (comparable(wanted[key]) == comparable(own[key])) continue;
    if (key == "target_modules" && wanted[key] == "all-linear")
      adapter.expects_all_linear = true;  // checked later, with the model
    else
      mistakes.fail("lora." + key, str("is ", wanted[key].dump(), ", and in ", printable(file), " it is ",
                                       own[key].dump(), "; leave it out to go on with that adapter"));
  }
  mistakes.finish();
  if (adapter.expects_all_linear) adapter.target_modules = "all-linear";
  config = std::move(adapter);
  return true;
}

}  // namespace ft
