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

// Sorted by name. In a folder lines of text (.txt) are data only where nothing else is. `path` is relative to
// `base`, the configuration's folder; `setting` is the path's own name in messages, such as
// data.datasets[0].path. Throws a UserError (exit 3) when nothing is there, or when there is something in a
// format that is not read.
std::vector<DataFile> find_data_files(const std::string& path, const std::filesystem::path& base,
                                      const std::string& setting);

}  // namespace ft
