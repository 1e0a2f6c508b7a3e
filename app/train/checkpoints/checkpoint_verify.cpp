#include "app/train/checkpoints/checkpoint_verify.h"

#include <cstdio>
#include <filesystem>

#include "app/screen/format.h"
#include "engine/files/checkpoint_folder.h"
#include "engine/files/file.h"

namespace ft {

Exit checkpoint_verify(const std::string& path) {
  namespace fs = std::filesystem;
  std::vector<std::string> all;
  for (const std::int64_t step : list_checkpoint_names(path)) all.push_back(checkpoint_path(path, step));
  if (all.empty()) all.push_back(path);  // a single checkpoint; if it is not, opening it reports so
  Exit exit = Exit::done;
  for (const std::string& folder : all) {
    try {
      const Checkpoint c = open_checkpoint(folder);
      std::int64_t bytes = 0;
      for (const std::string& name : c.files) bytes += InputFile(join_path(folder, name)).size();
      std::printf("%s: intact, step %s, %s, %s\n", folder.c_str(), show::count(c.step).c_str(),
                  show::plural(static_cast<std::int64_t>(c.files.size()), "file").c_str(),
                  show::file_size(bytes).c_str());
    } catch (const UserError& e) {
      std::printf("%s\n", e.what());
      exit = e.code;
    }
  }
  return exit;
}

}  // namespace ft
