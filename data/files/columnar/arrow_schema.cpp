#include "data/files/columnar/arrow_schema.h"

#include "data/files/utf8.h"
#include "engine/core/error.h"

namespace ft::columnar {
namespace {

using Layout = ArrowField::Layout;
using Kind = Meaning::Kind;

constexpr int kMostFields = 100'000;

void set_fixed(ArrowField& f, Meaning meaning, int width) {
  f.layout = Layout::fixed;
  f.meaning = std::move(meaning);
  f.width = width;
}

void set_other(ArrowField& f, const char* name, int width) {
  set_fixed(f, {.kind = Kind::other, .name = name}, width);
}

int width_of_bits(std::int32_t bits) {
  check(bits > 0 && bits <= 256 && bits % 8 == 0, "numbers whose bits do not fill bytes");
  return bits / 8;
}

int scale_of_unit(std::int16_t unit) {
  check(unit >= 0 && unit <= 3, "a unit of time that is not known");
  return 3 * unit;
}

void set_offsets(ArrowField& f, Layout layout, int width) {
  f.layout = layout;
  f.width = width;
}

void set_float(ArrowField& f, const FlatTable& type) {
  const auto precision = type.number<std::int16_t>(0, 0);
  check(precision >= 0 && precision <= 2, "floats of a size that is not known");
  set_fixed(f, {.kind = precision == 0 ? Kind::half : Kind::real}, 2 << precision);
}

// Sets the type of a single value, by its number in the union Type. Returns false for nested types.
bool set_value(ArrowField& f, int number, const FlatTable& type) {
  switch (number) {
    case 2: {
      const int width = width_of_bits(type.number<std::int32_t>(0, 0));
      check(width <= 8, "integers of more than 64 bits");
      set_fixed(f, {.kind = type.truth(1) ? Kind::integer : Kind::whole}, width);
      return true;
    }
    case 3:
      set_float(f, type);
      return true;
    case 6:
      f.layout = Layout::bits;
      f.meaning.kind = Kind::boolean;
      return true;
    case 7:
      set_fixed(f, {.kind = Kind::decimal, .scale = type.number<std::int32_t>(1, 0)},
                width_of_bits(type.number<std::int32_t>(2, 128)));
      return true;
    case 8:  // days or milliseconds; both are written as days
      set_fixed(f, {.kind = Kind::date}, type.number<std::int16_t>(0, 1) == 0 ? 4 : 8);
      return true;
    case 9:
      set_fixed(f, {.kind = Kind::time, .scale = scale_of_unit(type.number<std::int16_t>(0, 1))},
                width_of_bits(type.number<std::int32_t>(1, 32)));
      check(f.width == 4 || f.width == 8, "times of a size that is not known");
      return true;
    case 10:
      set_fixed(f, {.kind = Kind::timestamp, .scale = scale_of_unit(type.number<std::int16_t>(0, 0))}, 8);
      f.meaning.utc = !type.text(1).empty();
      return true;
    case 11: {
      const auto unit = type.number<std::int16_t>(0, 0);
      set_other(f, "interval", unit == 0 ? 4 : unit == 1 ? 8 : 16);
      return true;
    }
    case 15:
      set_fixed(f, {}, type.number<std::int32_t>(0, 0));
      check(f.width > 0, "values of 0 bytes");
      return true;
    case 18:
      set_other(f, "duration", 8);
      return true;
    default:
      return false;
  }
}

void set_layout(ArrowField& f, int number, const FlatTable& type) {
  if (set_value(f, number, type)) return;
  switch (number) {
    case 1:
      return;
    case 4:
    case 5:
      return set_offsets(f, Layout::texts, 4);
    case 19:
    case 20:
      return set_offsets(f, Layout::texts, 8);
    case 12:
      return set_offsets(f, Layout::list, 4);
    case 21:
      return set_offsets(f, Layout::list, 8);
    case 13:
      f.layout = Layout::structure;
      return;
    case 14:
      f.layout = type.number<std::int16_t>(0, 0) == 0 ? Layout::sparse_union : Layout::dense_union;
      return;
    case 16:
      f.layout = Layout::fixed_list;
      f.size = type.number<std::int32_t>(0, 0);
      check(f.size >= 0, "lists of a negative size");
      return;
    case 17:
      return set_offsets(f, Layout::map, 4);
    case 22:
      f.layout = Layout::run_ends;
      return;
    case 23:
    case 24:
      f.layout = Layout::views;
      return;
    case 25:
      return set_offsets(f, Layout::list_view, 4);
    case 26:
      return set_offsets(f, Layout::list_view, 8);
    default:
      throw Damage(str("values of type ", number, ", which is not known"));
  }
}

void check_children(const ArrowField& f) {
  const std::size_t n = f.children.size();
  switch (f.layout) {
    case Layout::list:
    case Layout::list_view:
    case Layout::fixed_list:
      return check(n == 1, "a list without its one child");
    case Layout::map:
      return check(n == 1 && f.children[0].layout == Layout::structure && f.children[0].children.size() == 2,
                   "a map without keys and values");
    case Layout::run_ends:
      return check(n == 2, "runs without their two children");
    case Layout::structure:
    case Layout::sparse_union:
    case Layout::dense_union:
      return;
    default:
      return check(n == 0, "a value with children");
  }
}

ArrowField read_field(const FlatTable& table, int depth, int& fields) {
  check(depth <= kDeepest, "a schema that is nested too deeply");
  check(++fields <= kMostFields, "a schema of more than 100,000 columns");
  ArrowField f{.name = std::string(table.text(0))};
  check(is_utf8(f.name), "a column whose name is not UTF-8");
  const auto type = table.table(3);
  check(type.has_value(), "a column without a type");
  set_layout(f, table.number<std::uint8_t>(2, 0), *type);
  const FlatList children = table.list(5, 4);
  for (std::uint64_t i = 0; i < children.size(); ++i)
    f.children.push_back(read_field(children.table(i), depth + 1, fields));
  check_children(f);
  const FlatList words = table.list(6, 4);
  for (std::uint64_t i = 0; i < words.size(); ++i)
    if (words.table(i).text(0) == "ARROW:extension:name" && words.table(i).text(1) == "arrow.json" &&
        f.meaning.kind == Kind::text)
      f.meaning.kind = Kind::json;
  if (const auto encoding = table.table(4)) {
    f.dictionary = encoding->number<std::int64_t>(0, 0);
    if (const auto index = encoding->table(1)) {
      f.index_width = width_of_bits(index->number<std::int32_t>(0, 32));
      f.index_signed = index->truth(1);
      check(f.index_width <= 8, "indices of more than 64 bits");
    }
  }
  return f;
}

}  // namespace

std::vector<ArrowField> read_arrow_schema(const FlatTable& schema) {
  check(schema.number<std::int16_t>(0, 0) == 0, "big-endian values, which are not read");
  std::vector<ArrowField> columns;
  int fields = 0;
  const FlatList list = schema.list(1, 4);
  for (std::uint64_t i = 0; i < list.size(); ++i) columns.push_back(read_field(list.table(i), 0, fields));
  return columns;
}

int buffers_of(const ArrowField& field, bool unions_valid) {
  switch (field.layout) {
    case Layout::none:
    case Layout::run_ends:
      return 0;
    case Layout::structure:
    case Layout::fixed_list:
      return 1;
    case Layout::sparse_union:
      return 1 + unions_valid;
    case Layout::dense_union:
      return 2 + unions_valid;
    case Layout::texts:
    case Layout::list_view:
      return 3;
    default:
      return 2;
  }
}

}  // namespace ft::columnar
