#include "data/files/saved_dataset.h"

#include <algorithm>

#include "engine/core/error.h"
#include "engine/files/file.h"
#include "engine/files/json.h"

namespace ft {
namespace {

namespace fs = std::filesystem;

bool has_file(const fs::path& folder, const char* name) {
  std::error_code none;
  return fs::is_regular_file(folder / name, none);
}

std::vector<DataFile> shards(const fs::path& folder, const std::string& name) {
  const std::string state = (fs::path(name) / "state.json").string();
  const JsonObject saved = JsonObject::parse(read_file((folder / "state.json").string(), 1 << 26), {state});
  if (saved.has("_indices_data_files") || saved.has("_indices_files"))
    throw UserError(Exit::input, str(printable(state),
                                     ": names rows by a list of indices, as old versions of "
                                     "datasets did, which is not read; load it and save it again"));
  std::vector<DataFile> files;
  for (const JsonObject& file : saved.objects("_data_files")) {
    const std::string shard = file.text("filename");
    require_inside(shard, state);
    files.push_back({folder / shard, (fs::path(name) / shard).string()});
  }
  if (files.empty()) throw UserError(Exit::input, str(printable(state), ": names no data files"));
  return files;
}

}  // namespace

bool is_saved_dataset(const fs::path& folder) {
  return has_file(folder, "dataset_dict.json") || has_file(folder, "state.json");
}

std::string choose_split(const DatasetConfig& dataset, const std::vector<std::string>& splits,
                         const std::string& name, const std::string& setting) {
  const std::string wanted = dataset.split.value_or(splits.size() == 1 ? splits[0] : "train");
  if (std::find(splits.begin(), splits.end(), wanted) != splits.end()) return wanted;
  std::string there;
  for (const std::string& split : splits) there += (there.empty() ? "" : ", ") + printable(split, 40);
  throw UserError(Exit::input, str(printable(name), ": no split \"", printable(wanted, 60), "\"; it has ",
                                   there.empty() ? "none" : there, " (", setting, ".split)"));
}

std::vector<DataFile> saved_files(const fs::path& folder, const std::string& name,
                                  const DatasetConfig& dataset, const std::string& setting) {
  if (!has_file(folder, "dataset_dict.json")) {
    if (dataset.split)
      throw UserError(Exit::config,
                      str(setting, ".split: ", printable(name), " has no splits; leave it out"));
    return shards(folder, name);
  }
  const std::string file = (fs::path(name) / "dataset_dict.json").string();
  const JsonObject dict =
      JsonObject::parse(read_file((folder / "dataset_dict.json").string(), 1 << 20), {file});
  const std::string split = choose_split(dataset, dict.texts("splits"), name, setting);
  require_inside(split, file);
  return shards(folder / split, (fs::path(name) / split).string());
}

}  // namespace ft
