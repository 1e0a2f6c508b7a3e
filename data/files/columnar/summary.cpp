#include "data/files/columnar/summary.h"

#include "data/files/columnar/arrow_messages.h"
#include "data/files/columnar/arrow_schema.h"
#include "data/files/columnar/parquet_schema.h"
#include "engine/core/error.h"

namespace ft::columnar {
namespace {

std::string value_type(const Meaning& meaning, int bytes) {
  using enum Meaning::Kind;
  switch (meaning.kind) {
    case boolean:
      return "bool";
    case integer:
      return str("int", 8 * bytes);
    case whole:
      return str("uint", 8 * bytes);
    case real:
      return str("float", 8 * bytes);
    case half:
      return "float16";
    case text:
      return "string";
    case json:
      return "json";
    case date:
      return "date";
    case time:
      return "time";
    case timestamp:
    case int96:
      return "timestamp";
    case decimal:
      return "decimal";
    case other:
      break;
  }
  return meaning.name;
}

std::string type_of(const Node& node);
std::string type_of(const ArrowField& field);

// Returns a type such as "struct<a: int64, b: string>"; maps and lists have no names inside.
template <class Child>
std::string nested(const char* kind, const std::vector<Child>& children, bool named = false) {
  std::string text = str(kind, "<");
  for (const Child& child : children) {
    if (&child != &children[0]) text += ", ";
    if (named) text += child.name + ": ";
    text += type_of(child);
  }
  return text + ">";
}

std::string type_of(const Node& node) {
  switch (node.kind) {
    case Node::Kind::structure:
      return nested("struct", node.children, true);
    case Node::Kind::list:
      return nested("list", node.children);
    case Node::Kind::map:
      return nested("map", node.children);
    case Node::Kind::leaf:
      break;
  }
  return value_type(node.meaning, node.type.width());
}

std::string type_of(const ArrowField& field) {
  using enum ArrowField::Layout;
  switch (field.layout) {
    case none:
      return "null";
    case list:
    case list_view:
    case fixed_list:
      return nested("list", field.children);
    case structure:
      return nested("struct", field.children, true);
    case map:
      return nested("map", field.children[0].children);
    case sparse_union:
    case dense_union:
      return nested("union", field.children);
    case run_ends:
      return nested("runs", field.children);
    default:
      return value_type(field.meaning, field.width);
  }
}

Summary of_parquet(const InputFile& file) {
  const ParquetFooter footer = read_footer(file);
  Summary s{.parquet = true, .rows = footer.rows, .parts = std::ssize(footer.groups)};
  for (const Node& column : make_tree(footer.schema).children)
    s.columns.push_back({column.name, type_of(column)});
  return s;
}

Summary of_arrow(const InputFile& file) {
  ArrowMessages messages(file);
  Summary s;
  for (const ArrowField& field : read_arrow_schema(messages.schema()))
    s.columns.push_back({field.name, type_of(field)});
  for (ArrowMessage m; messages.next(m);) {
    if (m.kind() != ArrowMessage::batch) continue;
    const auto rows = m.header().number<std::int64_t>(0, 0);
    check(rows >= 0 && rows <= INT64_MAX - s.rows, "a batch with a wrong number of rows");
    s.rows += rows;
    ++s.parts;
  }
  return s;
}

}  // namespace

bool has_summary(const DataFile& file) {
  const std::string kind = extension_of(file.path);
  return kind == ".parquet" || kind == ".arrow";
}

Summary summarize(const DataFile& file) {
  try {
    const InputFile in(file.path.string());
    return extension_of(file.path) == ".parquet" ? of_parquet(in) : of_arrow(in);
  } catch (const Damage& damage) {
    throw UserError(Exit::input, str(printable(file.name), ": ", damage.what()));
  }
}

}  // namespace ft::columnar
