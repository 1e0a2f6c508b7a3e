#include "data/batches/row_kind.h"

#include "data/files/json_row.h"
#include "data/row_formats.h"
#include "data/rows/format.h"

namespace ft {
namespace {

// Returns the names in the first row; none if the file has no rows.
std::vector<std::string> first_names(const DataFile& file) {
  const auto rows = open_rows(file);
  if (auto names = rows->columns()) return *names;
  Row row;
  if (!rows->next(row)) return {};
  return row_names(row.text, {&file.name, row.line});
}

// Returns the format that rows with these names have in a run that needs rows of a kind; null: none.
const RowFormat* format_for(FormatContext context, std::span<const std::string> names, RowKind wanted) {
  context.rows.kind = wanted;
  for (const RowFormat* rows : row_formats::kDetectionOrder)
    if (rows->fits(RowNames(context, names))) return rows;
  return nullptr;
}

}  // namespace

RowKind kind_of_rows(const DataConfig& data, const DatasetConfig& dataset, const DataPlaces& places,
                     const std::string& setting) {
  if (dataset.type != RowType(&row_formats::kDetected)) return dataset.type->kind;
  const std::vector<std::string> names = first_names(find_data_files(dataset, places, setting).front());
  const FormatContext context{data, dataset, setting, 0, {}, {}, false, {}};
  for (const RowKind kind : {RowKind::pair, RowKind::labelled}) {
    const RowFormat* format = format_for(context, names, kind);
    if (format && format->kind == kind) return kind;
  }
  if (const RowFormat* format = format_for(context, names, RowKind::example)) return format->kind;
  return format_for(context, names, RowKind::prompt) ? RowKind::prompt : RowKind::example;
}

}  // namespace ft
