// Which folders the ids of models are, found in the hub's cache of this machine.
#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace ft {

// The folder that huggingface_hub would use: HF_HUB_CACHE, else HUGGINGFACE_HUB_CACHE, else hub in HF_HOME,
// else huggingface/hub in XDG_CACHE_HOME or ~/.cache.
std::filesystem::path hub_cache();

class HubFolders {
 public:
  // Looks `name` up unless it is a folder here. `setting` is for the message of at().
  // A mistyped path may have been meant relative to `base`.
  void find(const std::string& name, const std::optional<std::string>& revision, const std::string& setting,
            const std::filesystem::path& base = {});
  bool is_id(const std::string& name) const { return folders_.contains(name) || missing_.contains(name); }
  // Whether at() has a folder for the name.
  bool has(const std::string& name) const { return !missing_.contains(name); }
  // The folder of a name; the name itself where that is a path. UserError (exit 3) for an id that the cache
  // does not have: it says which command fetches it.
  const std::string& at(const std::string& name) const;

 private:
  std::map<std::string, std::string> folders_, missing_;  // what to say
};

// The same for one name that no configuration holds.
std::string model_folder(const std::string& name, const std::string& revision, const std::string& setting);

}  // namespace ft
