#include "app/train/checkpoints/sources.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "app/hub/access.h"
#include "data/files/files.h"
#include "engine/files/hash.h"

namespace ft {
namespace fs = std::filesystem;
namespace {

bool is_weights(const std::string& name) {
  return name.ends_with(".safetensors") || name == "config.json" || name == "adapter_config.json";
}

bool is_tokenizer(const std::string& name) {
  constexpr std::array kNames{
      "tokenizer.json",    "tokenizer.model",   "spiece.model",          "vocab.json",
      "merges.txt",        "added_tokens.json", "tokenizer_config.json", "special_tokens_map.json",
      "chat_template.json"};
  return name.ends_with(".jinja") || std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

std::string hash_files(const std::vector<fs::path>& files) {
  std::string all;
  for (const fs::path& file : files) all += sampled_sha256(InputFile(file.string()));
  return files.empty() ? "" : sha256(all);
}

// Hashes a file, or the files of a folder for which `wanted` is true.
std::string hash_place(const std::string& path, bool wanted(const std::string&)) {
  if (fs::is_regular_file(path)) return hash_files({fs::path(path)});
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path))
    if (entry.is_regular_file() && wanted(entry.path().filename().string())) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return hash_files(files);
}

void add_datasets(const std::vector<DatasetConfig>& datasets, const std::string& setting, auto add) {
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    const std::string name = str(setting, ".", i);
    add(name + ".path", [&] {
      std::vector<fs::path> files;
      for (const DataFile& file : find_data_files(datasets[i], {.hub = hub::cache_folder()}, name))
        files.push_back(file.path);
      return hash_files(files);
    });
  }
}

}  // namespace

FileHashes sources_of(const RunConfig& config) {
  FileHashes all;
  const auto add = [&](const std::string& setting, auto hash) {
    try {
      if (const std::string found = hash(); !found.empty()) all[setting] = found;
    } catch (const UserError&) {
    } catch (const fs::filesystem_error&) {
    }
  };
  const auto add_model = [&](const std::string& setting, const std::optional<std::string>& name) {
    if (name) add(setting, [&] { return hash_place(model_folder(*name, "main", setting), is_weights); });
  };
  const BaseModelConfig& model = config.model;
  add("model.model_name_or_path",
      [&] { return hash_place(model.unpacked ? model.model_name_or_path : model.folder(), is_weights); });
  add("model.tokenizer_name_or_path", [&] { return hash_place(model.tokenizer(), is_tokenizer); });
  add_model("lora.adapter_name_or_path", config.lora.adapter_name_or_path);
  for (const NamedFile& file : files_of(config.objective))
    add_model(str("objective.", file.setting), file.name);
  add_datasets(config.data.datasets, "data.datasets", add);
  add_datasets(config.data.eval_datasets, "data.eval_datasets", add);
  return all;
}

}  // namespace ft
