// Writes one value of a column as JSON text, a part of a row of Parquet and Arrow files.
//
//   dates and times as Python prints them: 2023-04-09, 12:30:00.000001, 2023-04-09 12:30:00+00:00
//   decimals are numbers; NaN and infinity, which JSON does not have, are null
//   JSON inside a column loses the keys of objects whose value is null
//   bytes are a text if they are UTF-8, else refused
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
    json,       // JSON text, which becomes its value
    date,       // days since 1970
    time,       // ticks since midnight
    timestamp,  // ticks since 1970
    int96,      // nanoseconds of a day, and the Julian day: Impala's timestamps
    decimal,    // big-endian bytes, or an integer
    other
  };
  Kind kind = Kind::text;
  int scale = 0;       // digits after the point; for ticks: 10^scale per second
  bool utc = false;    // timestamps
  std::string name{};  // name of an unsupported type, for messages
};

// A stored value: an integer, a float, or bytes (which live as long as their source says).
struct Value {
  std::int64_t integer = 0;
  double real = 0;
  Bytes bytes{};
};

// Appends the value. Throws Damage if a text is not UTF-8, or the type is not supported.
void put(const Meaning& meaning, const Value& value, std::string& to);

// Appends a struct's member; `put_value` appends its value. A null member is left out: a struct of a columnar
// file has the keys of all rows, and TRL's remove_none_values removes them too.
void put_member(const std::string& name, const std::function<void()>& put_value, std::string& to);

// Throws Damage if the row is too long. Called while a row grows, so that memory stays bounded.
void check_row_size(const std::string& row);

}  // namespace ft::columnar
