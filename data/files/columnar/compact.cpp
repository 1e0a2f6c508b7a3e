#include "data/files/columnar/compact.h"

namespace ft::columnar {

std::int64_t Compact::integer() {
  check(pending_ && type_ >= kByte && type_ <= kInt64, "a value that should be a number");
  pending_ = false;
  return type_ == kByte ? in_.number<std::int8_t>() : in_.zigzag();
}

std::int32_t Compact::small() {
  const std::int64_t value = integer();
  check(value >= 0 && value <= INT32_MAX, "a number that is negative or too large");
  return static_cast<std::int32_t>(value);
}

bool Compact::boolean() {
  check(pending_ && (type_ == kTrue || type_ == kFalse), "a value that should be true or false");
  pending_ = false;
  return (in_list_ ? in_.number<std::uint8_t>() : type_) == kTrue;
}

Bytes Compact::binary() {
  check(pending_ && type_ == kBinary, "a value that should be a text");
  pending_ = false;
  return in_.take(in_.varint());
}

void Compact::skip() {
  switch (type_) {
    case kTrue:
    case kFalse:
      boolean();
      return;
    case kDouble:
      in_.take(8);
      break;
    case kBinary:
      binary();
      return;
    case kList:
    case kSet:
      type_ = kList;
      return list([] {});
    case kMap:
      return skip_map();
    case kStruct:
      return structure([](std::int64_t) {});
    case kUuid:
      in_.take(16);
      break;
    default:
      integer();
  }
  pending_ = false;
}

void Compact::skip_map() {
  begin(kMap);
  const std::uint64_t size = in_.varint();
  check(size <= in_.left().size(), "a map longer than its file");
  const int types = size == 0 ? 0 : in_.number<std::uint8_t>();
  for (std::uint64_t i = 0; i < 2 * size; ++i) {
    open(i % 2 == 0 ? types >> 4 : types & 15);
    in_list_ = true;
    skip();
  }
  end();
}

}  // namespace ft::columnar
