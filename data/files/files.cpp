#include "data/files/files.h"

#include <glob.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "data/files/file_formats.h"
#include "data/files/repository.h"
#include "data/files/saved_dataset.h"
#include "engine/core/error.h"
#include "engine/core/lower_case.h"
#include "engine/files/hub_cache.h"
#include "engine/files/near_path.h"

namespace ft {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 2> kPacked{".gz", ".zst"};
constexpr std::array<std::string_view, 4> kOtherPacking{".lz4", ".xz", ".bz2", ".zip"};

bool has(std::span<const std::string_view> list, std::string_view extension) {
  return std::find(list.begin(), list.end(), extension) != list.end();
}

const FileFormat* format_by_ending(std::string_view ending) {
  for (const FileFormat* format : kFileFormats)
    if (!ending.empty() && has(format->endings, ending)) return format;
  return nullptr;
}

// Returns ".jsonl, .ndjson, .json, .csv, .tsv and .txt, each also as .gz or .zst, and .parquet and .arrow".
std::string readable() {
  std::vector<std::string> plain, compressing;
  for (const FileFormat* format : kFileFormats)
    for (const std::string_view ending : format->endings)
      if (!ending.empty()) (format->compresses ? compressing : plain).emplace_back(ending);
  const auto joined = [](const std::vector<std::string>& endings) {
    std::string text = endings.front();
    for (std::size_t i = 1; i < endings.size(); ++i)
      text += (i + 1 == endings.size() ? " and " : ", ") + endings[i];
    return text;
  };
  return joined(plain) + ", each also as .gz or .zst, and " + joined(compressing);
}

// Returns true for files in which datasets and the hub describe data.
bool is_about_data(const std::string& name) {
  return name == "dataset_info.json" || name == "dataset_infos.json";
}

// Returns true for data that ft cannot read; notes are not data.
bool is_other_data(const fs::path& file) {
  return has(kOtherPacking, extension_of(file)) ||
         (has(kPacked, extension_of(file)) && !format_of_file(file));
}

[[noreturn]] void refuse_extension(const std::string& name, const fs::path& file) {
  const std::string extension = extension_of(file);
  if (format_by_ending(kind_of_file(file)))
    throw UserError(Exit::input,
                    str(printable(name), ": ", kind_of_file(file),
                        " files are compressed inside and not read as ", extension, "; decompress it"));
  if (has(kOtherPacking, extension))
    throw UserError(Exit::input, str(printable(name), ": ", extension,
                                     " files are not read; decompress it, or compress it as .gz or .zst"));
  throw UserError(Exit::input, str(printable(name), ": unknown kind of data file; ft reads ", readable()));
}

// Returns the name of a dataset's path setting, for messages.
std::string path_setting(const DatasetConfig& dataset, const std::string& setting) {
  return (dataset.place.empty() ? "" : dataset.place + ": ") + setting + ".path";
}

void sort_by_name(std::vector<DataFile>& files) {
  std::sort(files.begin(), files.end(), [](const DataFile& a, const DataFile& b) { return a.name < b.name; });
}

void check_regular(const DataFile& file) {
  std::error_code error;
  if (fs::is_regular_file(file.path, error)) return;
  throw UserError(Exit::input, str(printable(file.name), ": not a regular file"));
}

std::vector<DataFile> folder_files(const std::string& path, const fs::path& folder) {
  std::vector<DataFile> files, texts;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with('.') || it->is_directory() || is_about_data(name)) continue;
    const DataFile file{it->path(), (fs::path(path) / name).string()};
    // Notes are skipped. Data that would be skipped silently is an error.
    if (is_other_data(file.path)) refuse_extension(file.name, file.path);
    if (const FileFormat* format = format_of_file(file.path)) (format->notes ? texts : files).push_back(file);
  }
  if (files.empty()) files = texts;
  if (error) throw UserError(Exit::input, str(printable(path), ": ", error.message()));
  if (files.empty())
    throw UserError(Exit::input,
                    str(printable(path), ": the folder has no data files; ft reads ", readable()));
  sort_by_name(files);
  return files;
}

std::vector<DataFile> glob_files(const std::string& path, const fs::path& base, const std::string& setting) {
  glob_t found{};
  const int code = ::glob((base / path).c_str(), GLOB_NOSORT, nullptr, &found);
  std::vector<DataFile> files;
  const std::size_t cut = fs::path(path).is_absolute() || base.empty() ? 0 : (base / "").string().size();
  for (std::size_t i = 0; code == 0 && i < found.gl_pathc; ++i) {
    const std::string match = found.gl_pathv[i];
    if (!fs::is_directory(match)) files.push_back({match, match.substr(cut)});
  }
  ::globfree(&found);
  if (files.empty()) throw UserError(Exit::input, str(setting, ": no file matches ", printable(path)));
  for (const DataFile& file : files)
    if (!format_of_file(file.path)) refuse_extension(file.name, file.path);
  sort_by_name(files);
  return files;
}

std::vector<DataFile> single_file(const std::string& path, const fs::path& full) {
  if (!format_of_file(full)) refuse_extension(path, full);
  return {{full, path}};
}

// Returns the files of a folder with a known layout, such as splits.
std::vector<DataFile> laid_out_files(const fs::path& folder, const std::string& name,
                                     const DatasetConfig& dataset, const std::string& setting) {
  return is_saved_dataset(folder) ? saved_files(folder, name, dataset, setting)
                                  : repository_files(folder, name, dataset, setting);
}

std::vector<DataFile> hub_files(const DatasetConfig& dataset, const DataPlaces& places,
                                const std::string& setting) {
  const HubName name{HubKind::dataset, dataset.path, dataset.revision.value_or("main")};
  const auto folder = find_in_hub_cache(places.hub, name);
  if (!folder)
    throw UserError(Exit::input,
                    not_in_hub_cache(places.hub, name, path_setting(dataset, setting), places.base));
  return laid_out_files(*folder, dataset.path, dataset, setting);
}

// Throws UserError (config) for settings that have no meaning for a local file or folder.
void refuse_settings(const DatasetConfig& d, bool folder, const std::string& setting) {
  const auto refuse = [&](const char* what, const char* why) {
    throw UserError(Exit::config, str(setting, ".", what, ": ", printable(d.path), " ", why));
  };
  if (d.revision) refuse("revision", "is on this machine; only ids of the hub have revisions");
  if (folder) return;
  if (d.name) refuse("name", "is not a folder, and only folders have configurations");
  if (d.split && *d.split != "train") refuse("split", "is not a folder, and has no split but train");
}

}  // namespace

std::string extension_of(const fs::path& path) { return lower_case(path.extension().string()); }

std::string kind_of_file(const fs::path& path) {
  const bool packed = has(kPacked, extension_of(path));
  return extension_of(packed ? path.stem() : path);
}

bool is_data_file(const fs::path& file) {
  return format_of_file(file) && !is_about_data(file.filename().string());
}

const FileFormat* format_of_file(const fs::path& file) {
  const std::string ending = kind_of_file(file);
  const FileFormat* format = format_by_ending(ending);
  return format && format->compresses && extension_of(file) != ending ? nullptr : format;
}

std::vector<DataFile> find_data_files(const DatasetConfig& dataset, const DataPlaces& places,
                                      const std::string& setting) {
  const std::string& path = dataset.path;
  if (path.empty()) throw UserError(Exit::config, str(setting, ".path: empty"));
  std::error_code none;
  const fs::path full = places.base / path;
  const bool folder = fs::is_directory(full, none), there = fs::exists(full, none);
  std::vector<DataFile> files;
  if (!there && is_hub_id(path)) {
    files = hub_files(dataset, places, setting);
  } else {
    refuse_settings(dataset, folder, setting);
    if (folder && (dataset.split || dataset.name || is_saved_dataset(full)))
      files = laid_out_files(full, path, dataset, setting);
    else if (folder)
      files = folder_files(path, full);
    else if (there)
      files = single_file(path, full);
    else if (path.find_first_of("*?[") != std::string::npos)
      files = glob_files(path, places.base, path_setting(dataset, setting));
    else
      throw UserError(Exit::input,
                      str(printable(path), ": no such file or folder", hint_about_path(path, places.base),
                          " (", path_setting(dataset, setting), ")"));
  }
  for (const DataFile& file : files) check_regular(file);
  return files;
}

}  // namespace ft
