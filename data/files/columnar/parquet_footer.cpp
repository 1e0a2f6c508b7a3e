#include "data/files/columnar/parquet_footer.h"

#include <algorithm>

#include "data/files/columnar/compact.h"
#include "engine/core/error.h"

namespace ft::columnar {
namespace {

constexpr std::int64_t kLargestFooter = std::int64_t{64} << 20;
constexpr std::size_t kMostElements = 100'000;

template <class E>
E one_of(std::int64_t value, E last, const char* what) {
  check(value >= 0 && value <= static_cast<std::int64_t>(last), what);
  return static_cast<E>(value);
}

// A footer's annotations of an element, beyond how its values are stored.
struct Words {
  std::optional<Meaning> meaning;
  std::optional<GroupKind> group;
};

// Reads ConvertedType, the annotation of older writers.
Words converted_words(std::int64_t type, int scale) {
  using enum Meaning::Kind;
  switch (type) {
    case 1:
    case 2:
      return {.group = GroupKind::map};
    case 3:
      return {.group = GroupKind::list};
    case 5:
      return {.meaning = Meaning{decimal, scale}};
    case 6:
      return {.meaning = Meaning{date}};
    case 7:
      return {.meaning = Meaning{time, 3}};
    case 8:
      return {.meaning = Meaning{time, 6}};
    case 9:
      return {.meaning = Meaning{timestamp, 3, true}};
    case 10:
      return {.meaning = Meaning{timestamp, 6, true}};
    case 11:
    case 12:
    case 13:
    case 14:
      return {.meaning = Meaning{whole}};
    case 19:
      return {.meaning = Meaning{json}};
    case 20:
      return {.meaning = Meaning{.kind = other, .name = "BSON"}};
    case 21:
      return {.meaning = Meaning{.kind = other, .name = "INTERVAL"}};
    default:  // texts, and signed integers
      return {};
  }
}

// Reads TIME and TIMESTAMP: whether they are in universal time, and the unit of ticks.
Meaning read_ticks(Compact& in, Meaning::Kind kind) {
  Meaning m{kind};
  in.structure([&](std::int64_t id) {
    if (id == 1) m.utc = in.boolean();
    if (id == 2)
      in.structure([&](std::int64_t unit) {
        check(unit >= 1 && unit <= 3, "a unit of time that is not known");
        m.scale = static_cast<int>(3 * unit);
      });
  });
  return m;
}

Meaning read_decimal(Compact& in) {
  Meaning m{Meaning::Kind::decimal};
  in.structure([&](std::int64_t id) {
    if (id == 1) m.scale = in.small();
  });
  return m;
}

Meaning read_integer(Compact& in) {
  Meaning m{Meaning::Kind::integer};
  in.structure([&](std::int64_t id) {
    if (id == 2 && !in.boolean()) m.kind = Meaning::Kind::whole;
  });
  return m;
}

// Reads LogicalType, a union: it has one field.
Words read_logical(Compact& in) {
  using enum Meaning::Kind;
  Words words;
  in.structure([&](std::int64_t id) {
    if (id == 2) words.group = GroupKind::map;
    if (id == 3) words.group = GroupKind::list;
    if (id == 5) words.meaning = read_decimal(in);
    if (id == 6) words.meaning = Meaning{date};
    if (id == 7) words.meaning = read_ticks(in, time);
    if (id == 8) words.meaning = read_ticks(in, timestamp);
    if (id == 10) words.meaning = read_integer(in);
    if (id == 12) words.meaning = Meaning{json};
    if (id == 15) words.meaning = Meaning{half};
    for (const auto& [refused, name] :
         {std::pair{13, "BSON"}, {14, "UUID"}, {16, "VARIANT"}, {17, "GEOMETRY"}, {18, "GEOGRAPHY"}})
      if (id == refused) words.meaning = Meaning{.kind = other, .name = name};
  });
  return words;
}

// Returns the meaning of values in a column without annotations.
Meaning::Kind natural_kind(Physical physical) {
  using enum Meaning::Kind;
  switch (physical) {
    case Physical::boolean:
      return boolean;
    case Physical::int32:
    case Physical::int64:
      return integer;
    case Physical::int96:
      return int96;
    case Physical::real32:
    case Physical::real64:
      return real;
    default:
      return text;
  }
}

// Throws Damage if the annotations do not fit the stored values.
void check_meaning(const SchemaElement& e) {
  using enum Meaning::Kind;
  const Physical p = e.type->physical;
  const Meaning::Kind k = e.meaning.kind;
  const bool bytes = p == Physical::bytes || p == Physical::fixed_bytes;
  const bool integers = p == Physical::int32 || p == Physical::int64;
  const bool fits =
      k == natural_kind(p) || k == other || (k == decimal && (bytes || integers)) || (k == json && bytes) ||
      (k == half && p == Physical::fixed_bytes && e.type->length == 2) ||
      (k == date && p == Physical::int32) || ((k == whole || k == time || k == timestamp) && integers);
  if (!fits)
    throw Damage(str("column ", printable(e.name, 40), " has a logical type that does not fit its values"));
}

SchemaElement read_element(Compact& in) {
  SchemaElement e;
  std::optional<std::int64_t> physical, converted;
  std::int32_t length = 0, scale = 0;
  bool named = false;
  Words logical;
  in.structure([&](std::int64_t id) {
    if (id == 1) physical = in.integer();
    if (id == 2) length = in.small();
    if (id == 3) e.repetition = one_of(in.integer(), Repetition::repeated, "a repetition that is not known");
    if (id == 4) {
      e.name = in.binary();
      named = true;
    }
    if (id == 5) e.children = in.small();
    if (id == 6) converted = in.integer();
    if (id == 7) scale = in.small();
    if (id == 10) logical = read_logical(in);
  });
  check(named, "a column without a name");
  const Words older = converted ? converted_words(*converted, scale) : Words{};
  e.group = logical.group.value_or(older.group.value_or(GroupKind::structure));
  if (!physical || e.children > 0) return e;
  e.type = StoredType{one_of(*physical, Physical::fixed_bytes, "a type that is not known"), length};
  check(e.type->physical != Physical::fixed_bytes || length > 0, "values of 0 bytes");
  e.meaning =
      logical.meaning ? *logical.meaning : older.meaning.value_or(Meaning{natural_kind(e.type->physical)});
  check_meaning(e);
  return e;
}

ColumnChunk read_chunk(Compact& in) {
  ColumnChunk c;
  std::int64_t dictionary = 0;
  bool seen = false;
  in.structure([&](std::int64_t id) {
    if (id == 1) c.in_other_file = !in.binary().empty();
    if (id == 8) c.encrypted = true;
    if (id == 9) c.encrypted = true;
    if (id != 3) return;
    seen = true;
    in.structure([&](std::int64_t field) {
      if (field == 1)
        c.type.physical = one_of(in.integer(), Physical::fixed_bytes, "a type that is not known");
      if (field == 4) c.codec = one_of(in.integer(), Codec::lz4_raw, "a compression that is not known");
      if (field == 5) c.values = in.integer();
      if (field == 9) c.offset = in.integer();
      if (field == 11) dictionary = in.integer();
    });
  });
  check(seen || c.encrypted, "a column chunk without metadata");
  check(c.values >= 0, "a negative number of values");
  if (dictionary > 0 && dictionary < c.offset) c.offset = dictionary;
  return c;
}

RowGroup read_group(Compact& in, std::size_t leaves) {
  RowGroup g;
  in.structure([&](std::int64_t id) {
    if (id == 1) {
      in.list([&] {
        check(g.columns.size() < leaves, "a row group with more columns than the schema");
        g.columns.push_back(read_chunk(in));
      });
    }
    if (id == 3) g.rows = in.integer();
  });
  check(g.columns.size() == leaves, "a row group with fewer columns than the schema");
  check(g.rows >= 0, "a negative number of rows");
  return g;
}

std::string footer_bytes(const InputFile& file) {
  constexpr std::int64_t kTail = 8;  // the footer's length, and the magic bytes
  check(file.size() >= 12, "too short for a Parquet file");
  std::string head(4, '\0'), tail(kTail, '\0');
  file.read(0, head.data(), 4);
  file.read(file.size() - kTail, tail.data(), kTail);
  if (head == "PARE" || tail.ends_with("PARE"))
    throw Damage("an encrypted Parquet file, which is not read; save it without encryption");
  check(head == "PAR1", "not a Parquet file: it does not begin with PAR1");
  check(tail.ends_with("PAR1"), "damaged or cut short: a Parquet file ends with PAR1");
  const std::int64_t length = little<std::uint32_t>(tail);
  check(length <= file.size() - 12, "damaged or cut short: its footer is longer than the file");
  check(length <= kLargestFooter, "a footer of more than 64 MiB");
  std::string bytes(static_cast<std::size_t>(length), '\0');
  file.read(file.size() - kTail - length, bytes.data(), length);
  return bytes;
}

}  // namespace

int StoredType::width() const {
  switch (physical) {
    case Physical::int32:
    case Physical::real32:
      return 4;
    case Physical::int64:
    case Physical::real64:
      return 8;
    case Physical::int96:
      return 12;
    case Physical::fixed_bytes:
      return length;
    default:
      return 0;
  }
}

ParquetFooter read_footer(const InputFile& file) {
  const std::string bytes = footer_bytes(file);
  ParquetFooter footer;
  footer.offset = file.size() - 8 - static_cast<std::int64_t>(bytes.size());
  std::size_t leaves = 0;
  Compact in(bytes);
  in.structure([&](std::int64_t id) {
    if (id == 2) {
      in.list([&] {
        check(footer.schema.size() < kMostElements, "a schema of more than 100,000 columns");
        footer.schema.push_back(read_element(in));
        leaves += footer.schema.back().type.has_value();
      });
    }
    if (id == 3) footer.rows = in.integer();
    if (id == 4) in.list([&] { footer.groups.push_back(read_group(in, leaves)); });
    if (id == 8) throw Damage("an encrypted Parquet file, which is not read; save it without encryption");
  });
  check(!footer.schema.empty(), "a footer without a schema");
  check(footer.rows >= 0, "a negative number of rows");
  for (const RowGroup& group : footer.groups)  // the schema may follow the groups
    check(group.columns.size() == leaves, "a row group with fewer columns than the schema");
  return footer;
}

}  // namespace ft::columnar
