// The files of a data set as it lies on the hub, found as datasets' load_dataset finds them: by the
// configurations in its card (README.md), else by names: data/train-00000-of-00002.parquet, folders and files
// called train, validation or test; else all are train.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "data/config.h"
#include "data/files/files.h"

namespace ft {

// The files of the configuration and split that the dataset asks for. Messages call the folder `name`, and
// `setting` the dataset. Throws a UserError (exit 3) that names what there is.
std::vector<DataFile> repository_files(const std::filesystem::path& folder, const std::string& name,
                                       const DatasetConfig& dataset, const std::string& setting);

}  // namespace ft
