#include "engine/files/near_path.h"

#include <algorithm>
#include <vector>

#include "engine/core/error.h"
#include "engine/core/suggest.h"

namespace ft {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostLooked = 1000, kMostShown = 5;

// Returns the names in a folder, sorted, without hidden ones.
std::vector<std::string> names_in_folder(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end && names.size() < kMostLooked;
       it.increment(error))
    if (const std::string name = it->path().filename().string(); !name.starts_with('.'))
      names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

std::string hint_about_path(const fs::path& missing, const fs::path& base) {
  const fs::path path = missing.has_filename() ? missing : missing.parent_path();
  const fs::path folder = path.parent_path(), there = base / folder;
  const std::vector<std::string> names = names_in_folder(there.empty() ? "." : there);
  if (const std::string near = nearest(path.filename().string(), names); !near.empty())
    return "; do you mean " + printable((folder / near).string()) + "?";
  if (folder.filename().empty() || folder.filename() == "." || folder.filename() == ".." || names.empty())
    return "";
  std::string shown;
  for (std::size_t i = 0; i < std::min(names.size(), kMostShown); ++i)
    shown += (i ? ", " : "") + printable(names[i], 60);
  return str("; ", printable(folder.string()), " has ", shown, names.size() > kMostShown ? ", ..." : "");
}

}  // namespace ft
