// Reads Thrift's compact protocol, the encoding of Parquet's metadata
// (github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md).
#pragma once
#include <cstdint>

#include "data/files/columnar/bytes.h"

namespace ft::columnar {

// Reads one value at a time. The function that gets a field or an element reads it with one call; if it does
// not, the value is skipped. All functions throw Damage if the bytes hold no such value.
class Compact {
 public:
  explicit Compact(Bytes bytes) : in_(bytes) {}  // the bytes begin with a struct

  Bytes left() const { return in_.left(); }

  // Calls field(id) for each field of a struct.
  template <class Field>
  void structure(const Field& field) {
    begin(kStruct);
    for (std::int64_t id = 0;;) {
      const auto header = in_.number<std::uint8_t>();
      if (header == 0) break;
      id = header >> 4 ? id + (header >> 4) : in_.zigzag();
      check(id >= 0 && id <= INT32_MAX, "a field whose number is none");
      open(header & 15);
      field(id);
      if (pending_) skip();
    }
    end();
  }

  // Calls element() for each element of a list.
  template <class Element>
  void list(const Element& element) {
    begin(kList);
    const auto header = in_.number<std::uint8_t>();
    const std::uint64_t size = header >> 4 == 15 ? in_.varint() : header >> 4;
    check(size <= in_.left().size(), "a list longer than its file");
    for (std::uint64_t i = 0; i < size; ++i) {
      open(header & 15);
      in_list_ = true;
      element();
      if (pending_) skip();
    }
    end();
  }

  std::int64_t integer();  // of any width
  std::int32_t small();    // of 32 bits, not negative
  bool boolean();
  Bytes binary();  // a part of the file's bytes

 private:
  static constexpr int kTrue = 1, kFalse = 2, kByte = 3, kInt64 = 6, kDouble = 7, kBinary = 8, kList = 9,
                       kSet = 10, kMap = 11, kStruct = 12, kUuid = 13;

  void open(int type) {
    type_ = type;
    pending_ = true;
    in_list_ = false;
  }
  void begin(int type) {
    check(pending_ && type_ == type, "a value of another type");
    check(++depth_ <= kDeepest, "nested too deeply");
  }
  void end() {
    --depth_;
    pending_ = false;
  }
  void skip();
  void skip_map();

  Cursor in_;
  int type_ = kStruct;  // of the next value
  bool pending_ = true, in_list_ = false;
  int depth_ = 0;
};

}  // namespace ft::columnar
