// Folders as datasets' save_to_disk writes them: Arrow files that state.json names in order, or a folder of
// that kind for each split, which dataset_dict.json names.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "data/config.h"
#include "data/files/files.h"

namespace ft {

bool is_saved_dataset(const std::filesystem::path& folder);

// The files of the split that the dataset asks for (none: of train, or of the only one). `name` is the folder
// in messages, `setting` the dataset. Throws a UserError (exit 3).
std::vector<DataFile> saved_files(const std::filesystem::path& folder, const std::string& name,
                                  const DatasetConfig& dataset, const std::string& setting);

// The one of `splits` that the dataset asks for; without a word of it train, or the only one. Throws a
// UserError that names those there are.
std::string choose_split(const DatasetConfig& dataset, const std::vector<std::string>& splits,
                         const std::string& name, const std::string& setting);

}  // namespace ft
