#include "app/config/hub_folders.h"

#include "app/hub/access.h"
#include "engine/core/error.h"
#include "engine/files/file.h"
#include "engine/files/hub_cache.h"

namespace ft {
namespace fs = std::filesystem;

void HubFolders::find(const std::string& name, const std::optional<std::string>& revision,
                      const std::string& setting, const fs::path& base) {
  if (path_exists(name) || !is_hub_id(name)) return;
  const HubName wanted{HubKind::model, name, revision.value_or("main")};
  if (const auto folder = find_in_hub_cache(hub::cache_folder(), wanted))
    folders_[name] = folder->string();
  else
    missing_[name] = not_in_hub_cache(hub::cache_folder(), wanted, setting, base);
}

const std::string& HubFolders::at(const std::string& name) const {
  if (const auto it = missing_.find(name); it != missing_.end()) throw UserError(Exit::input, it->second);
  const auto it = folders_.find(name);
  return it == folders_.end() ? name : it->second;
}

std::string model_folder(const std::string& name, const std::string& revision, const std::string& setting) {
  HubFolders folders;
  folders.find(name, revision, setting);
  return folders.at(name);
}

}  // namespace ft
