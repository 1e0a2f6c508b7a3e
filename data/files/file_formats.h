// The formats of data files. Each is described beside its reader; this is the list.
#pragma once
#include <array>
#include <filesystem>
#include <memory>
#include <string_view>

namespace ft {

class RowReader;
struct DataFile;

struct FileFormat {
  std::array<std::string_view, 2> endings;  // in lower case; an empty one: none
  std::unique_ptr<RowReader> (*open)(const DataFile&);
  bool compresses = false;          // is compressed inside, and not read as .gz or .zst
  bool notes = false;               // such files in a folder are data only if it has no others
  const FileFormat* kin = nullptr;  // the format that a repository's files of this one count as; null: itself
};

namespace file_formats {
extern const FileFormat kParquet, kArrow, kJson, kJsonLines, kCsv, kTsv, kText;
}

// In the order of messages.
inline constexpr std::array kFileFormats{
    &file_formats::kJsonLines, &file_formats::kJson,    &file_formats::kCsv,  &file_formats::kTsv,
    &file_formats::kText,      &file_formats::kParquet, &file_formats::kArrow};

// Returns the format of a file by the ending of its name, without the ending of a compression; null: no data
// that ft reads.
const FileFormat* format_of_file(const std::filesystem::path& file);

}  // namespace ft
