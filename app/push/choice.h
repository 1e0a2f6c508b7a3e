// The choice of a folder's files that a hub gets.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "app/hub/selection.h"
#include "app/push/local_file.h"
#include "engine/files/hub_cache.h"

namespace ft::hub {

struct LeftOut {
  std::string path;  // of a file, or of a folder with "/" at its end
  std::string why;
};

struct Choice {
  std::vector<LocalFile> files;  // sorted by path
  std::vector<LeftOut> left_out;
};

// Chooses files. Without patterns to include, checkpoints, logs, and text files that name paths of this
// machine are left out, and a model's folder must hold a result. Never chooses .git, .cache, and unfinished
// files. Throws UserError (config) if `folder` is no folder or a run is going on in it; (input) if nothing is
// left, the run has not finished, or a name is none that a hub takes.
Choice choose_files(const std::filesystem::path& folder, HubKind kind, const Patterns& patterns);

// Returns the first path of this machine that a text names: below the user's home or the working folder, or
// one that exists outside of the system's folders. Empty: there is none.
std::string machine_path_in(const std::string& text);

}  // namespace ft::hub
