// The descriptor of a format of rows, which the format's own file defines.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace ft {

class Format;
class RowNames;
struct FormatContext;
enum class RowKind : std::uint8_t;  // data/rows/dataset.h

struct RowFormat {
  using Make = std::unique_ptr<Format>(const FormatContext&, std::span<const std::string> names);

  const char* name;  // the word in dataset.type
  RowKind kind{};    // by default RowKind::example
  // Fields that dataset.columns may rename; null: unused. From Parquet and Arrow files only these columns and
  // `unrenamed` are read.
  std::array<const char*, 6> columns{};
  const char* unrenamed = nullptr;
  bool source_and_target = true;            // its rows can train an encoder-decoder
  const char* instead = "";                 // advice if the objective is for other rows
  bool (*fits)(const RowNames&) = nullptr;  // true for rows with fields of these names
  Make* make = nullptr;

  static std::span<const RowFormat* const> all();
};

namespace row_formats {
inline constexpr RowFormat kDetected{.name = "auto"};  // the format is chosen by the names of the fields
}

}  // namespace ft
