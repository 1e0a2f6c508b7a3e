// FlatBuffers, in which Arrow's metadata is written (flatbuffers.dev, "Internals"): tables whose fields are
// found by number through a list of offsets. Offsets only lead forward, and every one is checked.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "data/files/columnar/bytes.h"

namespace ft::columnar {

class FlatList;

class FlatTable {
 public:
  // The table that a buffer begins with. Throws Damage, as everything here does.
  static FlatTable root(Bytes buffer);

  // A number; the fallback where it is not given.
  template <class T>
  T number(int field, T fallback) const {
    const std::uint64_t at = place_of(field);
    return at == 0 ? fallback : little<T>(part(at, sizeof(T)));
  }
  bool truth(int field) const { return number<std::uint8_t>(field, 0) != 0; }
  std::optional<FlatTable> table(int field) const;
  Bytes text(int field) const;
  // Elements of `size` bytes each; empty where it is not given. Tables have 4: an offset.
  FlatList list(int field, std::uint64_t size) const;

 private:
  friend class FlatList;
  FlatTable(Bytes buffer, std::uint64_t at);

  Bytes part(std::uint64_t at, std::uint64_t size) const;
  std::uint64_t place_of(int field) const;  // 0: it is not given
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
