// Finds the folders of model ids in this machine's Hugging Face hub cache.
#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace ft {

class HubFolders {
 public:
  // Looks `name` up in the cache unless it is a folder. The message of at() names `setting`. It also suggests
  // a path relative to `base`, because a mistyped path looks like an id.
  void find(const std::string& name, const std::optional<std::string>& revision, const std::string& setting,
            const std::filesystem::path& base = {});
  bool is_id(const std::string& name) const { return folders_.contains(name) || missing_.contains(name); }
  // True if at() returns a folder for the name.
  bool has(const std::string& name) const { return !missing_.contains(name); }
  // Returns the folder of a name, or the name if it is a path. Throws UserError (input) if the cache does not
  // have the id; the message gives the command that fetches it.
  const std::string& at(const std::string& name) const;

 private:
  std::map<std::string, std::string> folders_, missing_;  // by name: folders; messages of at()
};

// Returns the folder of one name, without a configuration. Throws UserError (input) like HubFolders::at.
std::string model_folder(const std::string& name, const std::string& revision, const std::string& setting);

}  // namespace ft
