// Reads the values of a column in one record batch (arrow.apache.org/docs/format/Columnar.html).
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "data/files/columnar/arrow_buffer.h"
#include "data/files/columnar/arrow_schema.h"
#include "data/files/columnar/unpack.h"

namespace ft::columnar {

struct ArrowDictionary;

class ArrowArray {
 public:
  std::int64_t length() const { return length_; }
  // Appends value i as JSON. `depth`: its level of nesting. Throws Damage.
  void put(std::int64_t i, int depth, std::string& to);

 private:
  friend class ArrowBatch;
  bool is_null(std::int64_t i);
  void put_fixed(std::int64_t i, std::string& to);
  void put_view(std::int64_t i, std::string& to);
  void put_items(std::int64_t begin, std::int64_t end, int depth, std::string& to);
  void put_structure(std::int64_t i, int depth, std::string& to);
  void put_pairs(std::int64_t begin, std::int64_t end, int depth, std::string& to);
  std::int64_t integer(ArrowBuffer& buffer, std::int64_t i, int width, bool is_signed);
  // Returns the beginning and end of a text or list.
  std::pair<std::int64_t, std::int64_t> range(std::int64_t i);

  const ArrowField* field_ = nullptr;
  ArrowDictionary* dictionary_ = nullptr;
  std::int64_t length_ = 0;
  std::vector<ArrowBuffer> buffers_;  // in the format's order; validity first
  std::vector<ArrowArray> children_;
};

struct ArrowDictionary {
  std::vector<ArrowArray> parts;  // later parts continue the numbering
  std::int64_t bytes = 0;         // size of the parts
  void put(std::int64_t index, int depth, std::string& to);
};

using ArrowDictionaries = std::map<std::int64_t, ArrowDictionary>;

// Makes the arrays of one message, in the schema's order.
class ArrowBatch {
 public:
  struct Body {
    const InputFile& file;
    std::int64_t offset, size;
    bool unions_valid;  // as in the older format
  };
  // `batch`: a RecordBatch. Body and dictionaries outlive the arrays; `held` counts their memory. Throws
  // Damage.
  ArrowBatch(const FlatTable& batch, const Body& body, ArrowDictionaries& dictionaries, Held& held);

  std::int64_t rows() const { return rows_; }
  // Returns the next column, with its values if `read`. `plain`: the values themselves, not indices into a
  // dictionary.
  ArrowArray take(const ArrowField& field, bool read, bool plain = false);

 private:
  ArrowBuffer take_buffer(bool read);

  Body body_;
  ArrowDictionaries& dictionaries_;
  Held& held_;
  FlatList nodes_, buffers_, view_counts_;
  std::int64_t rows_;
  int codec_ = -1;
  std::uint64_t node_ = 0, buffer_ = 0, view_ = 0;  // index of the next one
};

}  // namespace ft::columnar
