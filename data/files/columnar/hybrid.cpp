#include "data/files/columnar/hybrid.h"

#include <algorithm>
#include <bit>

namespace ft::columnar {

std::uint64_t bits_at(Bytes bytes, std::uint64_t bit, int width) {
  if (width == 0) return 0;
  const auto bits = static_cast<std::uint64_t>(width);
  check(bit + bits <= std::uint64_t{bytes.size()} * 8, "packed values that end early");
  const std::uint64_t first = bit / 8, last = (bit + bits - 1) / 8;
  const int shift = static_cast<int>(bit % 8);
  if (width <= 56 && first + 8 <= bytes.size())
    return little<std::uint64_t>(bytes.substr(first)) >> shift & ((std::uint64_t{1} << width) - 1);
  std::uint64_t value = 0;
  for (std::uint64_t i = first; i <= last; ++i) {
    const std::uint64_t byte = static_cast<unsigned char>(bytes[i]);
    const int at = static_cast<int>(8 * (i - first)) - shift;
    value |= at < 0 ? byte >> -at : byte << at;
  }
  return width == 64 ? value : value & ((std::uint64_t{1} << width) - 1);
}

int bits_for(std::uint64_t largest) { return static_cast<int>(std::bit_width(largest)); }

Hybrid::Hybrid(Bytes bytes, int width) : in_(bytes), width_(width) {
  check(width >= 0 && width <= 32, "values of more than 32 bits");
}

void Hybrid::start_run() {
  check(!in_.empty(), "runs that end before their values");
  const std::uint64_t header = in_.varint();
  check(header <= UINT32_MAX, "a run that is too long");
  packed_ = (header & 1) != 0;
  left_ = header >> 1;
  const auto width = static_cast<std::uint64_t>(width_);
  if (packed_) {
    run_ = in_.take(std::min<std::uint64_t>(left_ * width, in_.left().size()));  // the last run may be cut
    left_ *= 8;
    bit_ = 0;
    return;
  }
  const Bytes bytes = in_.take((width + 7) / 8);
  value_ = static_cast<std::uint32_t>(bits_at(bytes, 0, static_cast<int>(8 * bytes.size())));
  check(width_ == 32 || value_ < std::uint64_t{1} << width_, "a value of more bits than its run has");
}

}  // namespace ft::columnar
