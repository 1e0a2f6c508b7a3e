// Decodes the values of a page, one at a time (github.com/apache/parquet-format, Encodings.md).
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/files/columnar/bytes.h"
#include "data/files/columnar/cell.h"
#include "data/files/columnar/parquet_footer.h"

namespace ft::columnar {

// Encodings, with parquet.thrift's numbers.
enum class Encoding : std::uint8_t {
  plain = 0,
  plain_dictionary = 2,
  runs = 3,
  bit_packed = 4,
  delta_binary_packed = 5,
  delta_length_byte_array = 6,
  delta_byte_array = 7,
  dictionary_runs = 8,
  byte_stream_split = 9
};

// A dictionary page: PLAIN values, found by number.
class Dictionary {
 public:
  Dictionary(const StoredType& type, std::string page, std::int64_t count);
  Value at(std::uint32_t index) const;

 private:
  StoredType type_;
  std::string page_;
  std::vector<std::uint32_t> offsets_;  // texts: the beginning of each, and the end of the last
  std::uint32_t count_;
};

class Values {
 public:
  virtual ~Values() = default;
  // Returns the next value. Its bytes live until the next call, or as long as the page and dictionary. Throws
  // Damage.
  virtual Value next() = 0;
};

// Opens the values of a page, at most `count`. The dictionary may be null; it and the page must outlive the
// values. Throws Damage.
std::unique_ptr<Values> open_values(Encoding encoding, const StoredType& type, Bytes page, std::int64_t count,
                                    const Dictionary* dictionary);

}  // namespace ft::columnar
