// Finds the files of folders written by datasets' save_to_disk: Arrow files that state.json names in order,
// or one such folder for each split, which dataset_dict.json names.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "data/config.h"
#include "data/files/files.h"

namespace ft {

bool is_saved_dataset(const std::filesystem::path& folder);

// Returns the files of the split that the dataset's settings name (none: train, or the only split). `name`
// names the folder in messages, `setting` the dataset. Throws UserError (input).
std::vector<DataFile> saved_files(const std::filesystem::path& folder, const std::string& name,
                                  const DatasetConfig& dataset, const std::string& setting);

// Returns the one of `splits` that the dataset's settings name, else train, or the only split. Throws
// UserError, which lists the splits.
std::string choose_split(const DatasetConfig& dataset, const std::vector<std::string>& splits,
                         const std::string& name, const std::string& setting);

}  // namespace ft
