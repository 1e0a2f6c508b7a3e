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

constexpr std::string_view kReadable =
    ".jsonl, .ndjson, .json, .csv, .tsv and .txt, each also as .gz or .zst";
constexpr std::array<std::string_view, 5> kTables{".jsonl", ".ndjson", ".json", ".csv", ".tsv"};
constexpr std::array<std::string_view, 2> kPacked{".gz", ".zst"};
constexpr std::array<std::string_view, 4> kOtherPacking{".lz4", ".xz", ".bz2", ".zip"};

bool has(std::span<const std::string_view> list, std::string_view extension) {
  return std::find(list.begin(), list.end(), extension) != list.end();
}

bool is_table(const fs::path& file) { return has(kTables, kind_of_file(file)); }
bool is_text(const fs::path& file) { return kind_of_file(file) == ".txt"; }

// A Python command that makes lines of JSON of a file in a format of columns; "" for other files.
std::string conversion(const fs::path& file) {
  const std::string kind = kind_of_file(file), from = file.filename().string();
  const std::string to = fs::path(from).replace_extension(".jsonl").string();
  if (kind == ".parquet")
    return str("python -c \"import pandas; pandas.read_parquet('", from, "').to_json('", to,
               "', orient='records', lines=True, force_ascii=False)\"");
  if (kind == ".arrow")
    return str("python -c \"import datasets; datasets.Dataset.from_file('", from, "').to_json('", to, "')\"");
  return "";
}

// Data that ft does not read, as opposed to notes beside data.
bool is_other_data(const fs::path& file) {
  return !conversion(file).empty() || has(kOtherPacking, file.extension().string()) ||
         (has(kPacked, file.extension().string()) && !is_table(file) && !is_text(file));
}

[[noreturn]] void refuse_extension(const std::string& name, const fs::path& file) {
  const std::string extension = file.extension().string();
  if (const std::string command = conversion(file); !command.empty())
    throw UserError(Exit::input, str(printable(name), ": ", kind_of_file(file),
                                     " files are not read; convert it: ", printable(command, 1000)));
  if (has(kOtherPacking, extension))
    throw UserError(Exit::input, str(printable(name), ": ", extension,
                                     " files are not read; decompress it, or compress it as .gz or .zst"));
  throw UserError(Exit::input, str(printable(name), ": unknown kind of data file; ft reads ", kReadable));
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
    if (name.starts_with('.') || it->is_directory()) continue;
    const DataFile file{it->path(), (fs::path(path) / name).string()};
    // Notes beside the data are no data; data that would be left out in silence is an error.
    if (is_other_data(file.path)) refuse_extension(file.name, file.path);
    if (is_table(file.path)) files.push_back(file);
    if (is_text(file.path)) texts.push_back(file);
  }
  if (files.empty()) files = texts;
  if (error) throw UserError(Exit::input, str(printable(path), ": ", error.message()));
  if (files.empty())
    throw UserError(Exit::input,
                    str(printable(path), ": the folder has no data files; ft reads ", kReadable));
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
    if (!is_table(file.path) && !is_text(file.path)) refuse_extension(file.name, file.path);
  return files;
}

}  // namespace

std::string kind_of_file(const fs::path& path) {
  const bool packed = has(kPacked, path.extension().string());
  return (packed ? path.stem() : path).extension().string();
}

std::vector<DataFile> find_data_files(const std::string& path, const fs::path& base,
                                      const std::string& setting) {
  if (path.empty()) throw UserError(Exit::config, str(setting, ": empty"));
  const fs::path full = base / path;
  std::error_code error;
  std::vector<DataFile> files;
  if (fs::is_directory(full, error)) {
    files = folder_files(path, full);
  } else if (fs::exists(full, error)) {
    if (!is_table(full) && !is_text(full)) refuse_extension(path, full);
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
