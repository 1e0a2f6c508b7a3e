#include "data/files/columnar/flatbuffer.h"

namespace ft::columnar {

FlatTable FlatTable::root(Bytes buffer) {
  check(buffer.size() >= 4, "metadata that ends early");
  return FlatTable(buffer, little<std::uint32_t>(buffer));
}

FlatTable::FlatTable(Bytes buffer, std::uint64_t at) : buffer_(buffer), at_(at) {
  const auto back = little<std::int32_t>(part(at, 4));
  const std::int64_t offsets = static_cast<std::int64_t>(at) - back;
  check(offsets >= 0, "metadata with an offset that leads out of it");
  offsets_ = static_cast<std::uint64_t>(offsets);
  const auto size = little<std::uint16_t>(part(offsets_, 2));
  check(size >= 4 && size % 2 == 0, "metadata with a damaged table");
  part(offsets_, size);
  fields_ = (size - 4U) / 2;
}

Bytes FlatTable::part(std::uint64_t at, std::uint64_t size) const {
  check(at <= buffer_.size() && size <= buffer_.size() - at, "metadata with an offset that leads out of it");
  return buffer_.substr(at, size);
}

std::uint64_t FlatTable::place_of(int field) const {
  const auto number = static_cast<std::uint64_t>(field);
  if (number >= fields_) return 0;
  const auto offset = little<std::uint16_t>(part(offsets_ + 4 + 2 * number, 2));
  return offset == 0 ? 0 : at_ + offset;
}

std::uint64_t FlatTable::follow(std::uint64_t at) const {
  const auto offset = little<std::uint32_t>(part(at, 4));
  check(offset > 0, "metadata with an offset that leads nowhere");
  return at + offset;
}

std::optional<FlatTable> FlatTable::table(int field) const {
  const std::uint64_t at = place_of(field);
  if (at == 0) return std::nullopt;
  return FlatTable(buffer_, follow(at));
}

Bytes FlatTable::text(int field) const {
  const std::uint64_t at = place_of(field);
  if (at == 0) return {};
  const std::uint64_t begin = follow(at);
  return part(begin + 4, little<std::uint32_t>(part(begin, 4)));
}

FlatList FlatTable::list(int field, std::uint64_t size) const {
  const std::uint64_t at = place_of(field);
  if (at == 0) return {*this, 0, 0, size};
  const std::uint64_t begin = follow(at), count = little<std::uint32_t>(part(begin, 4));
  part(begin + 4, count * size);
  return {*this, begin + 4, count, size};
}

FlatTable FlatList::table(std::uint64_t i) const {
  check(i < count_, "a list with fewer elements than are needed");
  return FlatTable(in_.buffer_, in_.follow(at_ + i * size_));
}

}  // namespace ft::columnar
