// Finds the files that `data.datasets[i].path` names: a file, a folder or a glob.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace ft {

struct DataFile {
  std::filesystem::path path;
  std::string name;  // for messages: relative where the user wrote it so
};

// Sorted by name. `path` is relative to `base`, the configuration's folder; `setting` is the path's own name
// in messages, such as data.datasets[0].path. Throws a UserError (exit 3) when nothing is there, or when
// there is something in a format that is not read yet.
std::vector<DataFile> find_data_files(const std::string& path, const std::filesystem::path& base,
                                      const std::string& setting);

}  // namespace ft
