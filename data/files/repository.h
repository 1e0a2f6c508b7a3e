// Finds the files of a data set in the hub's layout, as datasets' load_dataset does: by the configurations in
// its card (README.md), else by names: data/train-00000-of-00002.parquet, folders and files called train,
// validation or test; else all files are train.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "data/config.h"
#include "data/files/files.h"

namespace ft {

// Returns the files of the configuration and split that the dataset's settings name. Messages call the folder
// `name` and the dataset `setting`. Throws UserError (input), which lists the available ones, if they do not
// exist.
std::vector<DataFile> repository_files(const std::filesystem::path& folder, const std::string& name,
                                       const DatasetConfig& dataset, const std::string& setting);

}  // namespace ft
