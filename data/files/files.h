// Finds the files that `data.datasets[i].path` names: a file, a folder or a glob.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "data/config.h"

namespace ft {

struct DataFile {
  std::filesystem::path path;
  std::string name;  // for messages: relative where the user wrote it so
};

// The extension in lower case: .gz for A.JSONL.GZ.
std::string extension_of(const std::filesystem::path& path);
// The extension that says what is in a file, without that of packing: .jsonl for a.jsonl.gz.
std::string kind_of_file(const std::filesystem::path& path);

// Where datasets are looked for.
struct DataPlaces {
  std::filesystem::path base{};  // relative paths are relative to it: the configuration's folder
  std::filesystem::path hub{};   // the hub's cache, for ids; empty: there is none
};

// The files of `dataset`: of a file, a folder, a glob, or the id of a data set on the hub. Sorted by name,
// but those of a folder that datasets' save_to_disk made come in its order, and of a split in that of its
// card. In a folder, text files (.txt) count as data only if there are no others. `setting` names the dataset
// in messages: data.datasets[0]. Throws a UserError (exit 3) when there is nothing, or something in a format
// that is not read.
std::vector<DataFile> find_data_files(const DatasetConfig& dataset, const DataPlaces& places,
                                      const std::string& setting);

// By its name: something that open_rows reads.
bool is_data_file(const std::filesystem::path& file);

}  // namespace ft
