// One value of a column as text in JSON: what rows of Parquet and Arrow files are made of.
//
//   dates and times as Python prints them: 2023-04-09, 12:30:00.000001, 2023-04-09 12:30:00+00:00
//   decimals are numbers; NaN and infinity, which JSON does not have, are null
//   of JSON inside a column, keys of objects whose value is null are left out
//   bytes are a text if they are UTF-8, and refused if not
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "data/files/columnar/bytes.h"

namespace ft::columnar {

struct Meaning {
  enum class Kind : std::uint8_t {
    boolean,
    integer,
    whole,  // not negative
    real,
    half,  // a float of 16 bits in two bytes
    text,
    json,       // a text that is JSON, which becomes its value
    date,       // days since 1970
    time,       // ticks since midnight
    timestamp,  // ticks since 1970
    int96,      // nanoseconds of a day, and the Julian day: Impala's timestamps
    decimal,    // big-endian bytes, or an integer
    other
  };
  Kind kind = Kind::text;
  int scale = 0;       // digits behind the point; of ticks: 10^scale a second
  bool utc = false;    // timestamps
  std::string name{};  // of what is not read, for messages
};

// What a file stores: an integer, a float, or bytes (which live as long as their source says).
struct Value {
  std::int64_t integer = 0;
  double real = 0;
  Bytes bytes{};
};

// Appends it. Throws Damage for text that is no UTF-8, and for what is not read.
void put(const Meaning& meaning, const Value& value, std::string& to);

// Appends a struct's member, whose value `put_value` appends. A null member is left out: a struct of a
// columnar file has the keys of all rows, and TRL's remove_none_values takes them out too.
void put_member(const std::string& name, const std::function<void()>& put_value, std::string& to);

// Rows are refused while they grow, not when they are complete. Throws Damage.
void check_row_size(const std::string& row);

}  // namespace ft::columnar
