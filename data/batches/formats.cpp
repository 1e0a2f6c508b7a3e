// Chooses the format of rows: by dataset.type, or by the names of their fields.
#include "data/rows/format.h"

#include <algorithm>

#include "data/row_formats.h"
#include "engine/core/error.h"

namespace ft {
namespace {

std::vector<std::string_view> columns_of(const RowFormat& rows) {
  std::vector<std::string_view> columns;
  for (const char* name : rows.columns)
    if (name) columns.emplace_back(name);
  return columns;
}

// Adds the columns that rows of this format may have. If the format has already picked columns by their
// names, keeps its choice of prompt, completion and response.
void add_columns(Format& format, const RowFormat& rows, const DatasetConfig& dataset) {
  const bool picks = !format.columns.empty();
  for (const std::string_view name : columns_of(rows))
    if (!picks || (name != "prompt" && name != "completion" && name != "response"))
      format.columns.push_back(column(dataset, std::string(name)));
  if (rows.unrenamed) format.columns.emplace_back(rows.unrenamed);
}

// Returns a text such as "a, b, c".
std::string listed(const auto& names) {
  std::string list;
  for (const auto& name : names) list += str(list.empty() ? "" : ", ", name);
  return list;
}

std::vector<const char*> names_of(const auto& is_meant) {
  std::vector<const char*> names;
  for (const RowFormat* rows : RowFormat::all())
    if (is_meant(*rows)) names.push_back(rows->name);
  return names;
}

// Returns the first format, in a fixed order, whose fields the row has.
const RowFormat& detect(const FormatContext& context, std::span<const std::string> names, const Place& at) {
  for (const RowFormat* rows : row_formats::kDetectionOrder)
    if (rows->fits(RowNames(context, names))) return *rows;
  std::vector<std::string> shown;
  for (const auto& name : names) shown.push_back(printable(name, 40));
  at.fail(str("cannot tell the type of the rows from the names of their fields: ",
              names.empty() ? "none" : listed(shown), ". Set ", context.setting, ".type (",
              listed(names_of([](const RowFormat&) { return true; })), ") and ", context.setting,
              ".columns"));
}

// Describes the rows of a kind, and the formats that have them.
std::string rows_of(RowKind kind) {
  if (kind == RowKind::example) return "examples";
  if (kind == RowKind::classified) return "rows with a label: text, tokenized, token_labels";
  const char* rows = kind == RowKind::pair       ? "pairs of answers: "
                     : kind == RowKind::labelled ? "answers with a label: "
                     : kind == RowKind::prompt   ? "prompts, where rewards are set: "
                     : kind == RowKind::texts    ? "texts that belong together: "
                                                 : "answers with a reward: ";
  return rows + listed(names_of([&](const RowFormat& format) { return format.kind == kind; }));
}

// Returns the format of these rows with labels if the run classifies.
const RowFormat& with_labels(const FormatContext& context, const RowFormat& rows) {
  if (context.rows.kind != RowKind::classified) return rows;
  return &rows == &row_formats::kText        ? row_formats::kTextClasses
         : &rows == &row_formats::kTokenized ? row_formats::kTokenizedClasses
                                             : rows;
}

void require_kind(const FormatContext& context, const RowFormat& rows) {
  if (rows.kind == context.rows.kind) return;
  throw UserError(Exit::config, str(context.setting, ".type: objective.type ", context.rows.objective,
                                    " is for ", rows_of(context.rows.kind), "; these rows are of type ",
                                    rows.name, *rows.instead ? "; " : "", rows.instead));
}

// Throws UserError (config) if a setting of chat templates has no effect on rows of this format.
void require_chats(const FormatContext& context, const RowFormat& rows,
                   std::span<const std::string_view> columns) {
  const bool chats = std::find(columns.begin(), columns.end(), "chat_template_kwargs") != columns.end();
  for (const std::string_view name : context.chat_settings())
    if (!chats)
      throw UserError(Exit::config, str("data.", name, ": has no effect on rows of type ", rows.name, " (",
                                        context.setting, "), which are not conversations; take it out"));
}

void require_source_and_target(const FormatContext& context, const RowFormat& rows) {
  if (!context.seq2seq || rows.source_and_target) return;
  std::vector<const char*> others = names_of([](const RowFormat& format) {
    return format.make && format.kind == RowKind::example && format.source_and_target;
  });
  const char* last = others.back();
  others.pop_back();
  throw UserError(Exit::config, str(context.setting, ": rows of type ", rows.name,
                                    " have no source and target, which an encoder-decoder needs; it takes ",
                                    listed(others), " and ", last));
}

}  // namespace

std::span<const RowFormat* const> RowFormat::all() { return row_formats::kRowFormats; }

std::unique_ptr<Format> make_format(const FormatContext& context, std::span<const std::string> names,
                                    const Place& at) {
  const RowType given = context.dataset.type;
  const RowFormat& rows =
      with_labels(context, given == &row_formats::kDetected ? detect(context, names, at) : *given);
  require_kind(context, rows);
  const std::vector<std::string_view> columns = columns_of(rows);
  require_chats(context, rows, columns);
  for (const auto& [ours, theirs] : context.dataset.columns)
    if (std::find(columns.begin(), columns.end(), ours) == columns.end())
      throw UserError(Exit::config, str(context.setting, ".columns.", printable(ours), ": rows of type ",
                                        rows.name, " have no such column; they have ", listed(columns)));
  require_source_and_target(context, rows);
  std::unique_ptr<Format> format = rows.make(context, names);
  format->type = rows.name;
  add_columns(*format, rows, context.dataset);
  if (rows.kind == RowKind::prompt) format->columns.assign(names.begin(), names.end());
  return format;
}

}  // namespace ft
