#include "engine/files/make_folders.h"

#include <unistd.h>

#include <filesystem>
#include <vector>

#include "engine/files/file.h"

namespace ft {

void make_folders(const std::string& folder) {
  std::vector<std::string> missing;
  for (std::string at = without_slash(folder); !at.empty() && !path_exists(at); at = folder_of(at))
    missing.push_back(at);
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (problem)
    throw UserError(Exit::storage,
                    str(printable(folder), ": cannot be written: ", system_error_text(problem.value())));
  for (const std::string& made : missing)
    // Skips a folder that cannot be read, since it cannot be synced.
    if (const std::string parent = folder_of(made); ::access(parent.c_str(), R_OK) == 0) sync_folder(parent);
}

}  // namespace ft
