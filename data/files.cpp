#include "data/files.h"

#include <glob.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "engine/core/error.h"

namespace ft {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kReadable = ".jsonl, .ndjson and .json";
constexpr std::array<std::string_view, 3> kExtensions{".jsonl", ".ndjson", ".json"};
constexpr std::array<std::string_view, 11> kLater{".csv", ".tsv", ".txt", ".parquet", ".arrow", ".gz",
                                                  ".zst", ".lz4", ".xz",  ".bz2",     ".zip"};

bool has(std::span<const std::string_view> list, const fs::path& file) {
  return std::find(list.begin(), list.end(), file.extension().string()) != list.end();
}

[[noreturn]] void refuse_extension(const std::string& name, const fs::path& file) {
  if (has(kLater, file))
    throw UserError(Exit::input, str(printable(name), ": ", file.extension().string(),
                                     " files are not read yet; ft reads ", kReadable));
  throw UserError(Exit::input, str(printable(name), ": not a data file that ft knows; it reads ", kReadable));
}

void check_regular(const DataFile& file) {
  std::error_code error;
  if (fs::is_regular_file(file.path, error)) return;
  throw UserError(Exit::input, str(printable(file.name), ": not a regular file"));
}

std::vector<DataFile> folder_files(const std::string& path, const fs::path& folder) {
  std::vector<DataFile> files;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with('.') || it->is_directory()) continue;
    const DataFile file{it->path(), (fs::path(path) / name).string()};
    // Notes beside the data are no data; data that would be left out in silence is an error.
    if (has(kLater, file.path)) refuse_extension(file.name, file.path);
    if (has(kExtensions, file.path)) files.push_back(file);
  }
  if (error) throw UserError(Exit::input, str(printable(path), ": ", error.message()));
  if (files.empty())
    throw UserError(Exit::input, str(printable(path), ": no .jsonl, .ndjson or .json files in it"));
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
    if (!has(kExtensions, file.path)) refuse_extension(file.name, file.path);
  return files;
}

}  // namespace

std::vector<DataFile> find_data_files(const std::string& path, const fs::path& base,
                                      const std::string& setting) {
  if (path.empty()) throw UserError(Exit::config, str(setting, ": empty"));
  const fs::path full = base / path;
  std::error_code error;
  std::vector<DataFile> files;
  if (fs::is_directory(full, error)) {
    files = folder_files(path, full);
  } else if (fs::exists(full, error)) {
    if (!has(kExtensions, full)) refuse_extension(path, full);
    files = {{full, path}};
  } else if (path.find_first_of("*?[") != std::string::npos) {
    files = glob_files(path, base, setting);
  } else {
    throw UserError(Exit::input, str(printable(path), ": no such file or folder (", setting, ")"));
  }
  std::sort(files.begin(), files.end(), [](const DataFile& a, const DataFile& b) { return a.name < b.name; });
  for (const DataFile& file : files) check_regular(file);
  return files;
}

}  // namespace ft
