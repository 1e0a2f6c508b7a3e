// Reads FlatBuffers, the encoding of Arrow's metadata (flatbuffers.dev, "Internals"): tables whose fields are
// found by number through a list of offsets. Offsets only lead forward, and every offset is checked.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "data/files/columnar/bytes.h"

namespace ft::columnar {

class FlatList;

class FlatTable {
 public:
  // Returns the table at the beginning of a buffer. Throws Damage, as all functions here do.
  static FlatTable root(Bytes buffer);

  // Returns a number; the fallback if the field is absent.
  template <class T>
  T number(int field, T fallback) const {
    const std::uint64_t at = place_of(field);
    return at == 0 ? fallback : little<T>(part(at, sizeof(T)));
  }
  bool truth(int field) const { return number<std::uint8_t>(field, 0) != 0; }
  std::optional<FlatTable> table(int field) const;
  Bytes text(int field) const;
  // Returns a list with elements of `size` bytes; empty if the field is absent. Elements that are tables have
  // 4 bytes, an offset.
  FlatList list(int field, std::uint64_t size) const;

 private:
  friend class FlatList;
  FlatTable(Bytes buffer, std::uint64_t at);

  Bytes part(std::uint64_t at, std::uint64_t size) const;
  std::uint64_t place_of(int field) const;  // 0: the field is absent
  std::uint64_t follow(std::uint64_t at) const;

  Bytes buffer_;
  std::uint64_t at_, offsets_ = 0, fields_ = 0;
};

class FlatList {
 public:
  std::uint64_t size() const { return count_; }
  FlatTable table(std::uint64_t i) const;
  template <class T>
  T number(std::uint64_t i, std::uint64_t offset = 0) const {
    check(i < count_, "a list with fewer elements than are needed");
    return little<T>(in_.part(at_ + i * size_ + offset, sizeof(T)));
  }

 private:
  friend class FlatTable;
  FlatList(const FlatTable& in, std::uint64_t at, std::uint64_t count, std::uint64_t size)
      : in_(in), at_(at), count_(count), size_(size) {}

  FlatTable in_;
  std::uint64_t at_, count_, size_;
};

}  // namespace ft::columnar
