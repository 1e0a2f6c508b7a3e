// Finds the data files that `data.datasets[i].path` names: a file, a folder, a glob or an id on the hub.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "data/config.h"

namespace ft {

struct DataFile {
  std::filesystem::path path;
  std::string name;  // for messages: relative if the user wrote it so
};

// Returns the extension in lower case: .gz for A.JSONL.GZ.
std::string extension_of(const std::filesystem::path& path);
// Returns the extension that tells a file's content, without the compression's: .jsonl for a.jsonl.gz.
std::string kind_of_file(const std::filesystem::path& path);

// Folders in which datasets are searched.
struct DataPlaces {
  std::filesystem::path base{};  // base of relative paths: the configuration's folder
  std::filesystem::path hub{};   // the hub's cache, for ids; empty: none
};

// Returns the files of `dataset`, whose path is a file, a folder, a glob, or the id of a data set on the hub.
// They are sorted by name, with two exceptions: folders of datasets' save_to_disk keep its order, and splits
// the order in their card. In a folder, text files (.txt) are data only if there are no other data files.
// `setting` names the dataset in messages: data.datasets[0]. Throws UserError (input) if there are no files,
// or their format is not supported.
std::vector<DataFile> find_data_files(const DatasetConfig& dataset, const DataPlaces& places,
                                      const std::string& setting);

// Returns true if the file's name shows a format that open_rows reads.
bool is_data_file(const std::filesystem::path& file);

}  // namespace ft
