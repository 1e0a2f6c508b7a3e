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

// The extension that says what is in a file, without that of packing: .jsonl for a.jsonl.gz.
std::string kind_of_file(const std::filesystem::path& path);

// Sorted by name. In a folder, text files (.txt) count as data only if there are no others. `path` is
// relative to `base`, the configuration's folder; `setting` names the path in messages, such as
// data.datasets[0].path. Throws a UserError (exit 3) when there is nothing, or something in a format that is
// not read.
std::vector<DataFile> find_data_files(const std::string& path, const std::filesystem::path& base,
                                      const std::string& setting);

}  // namespace ft
