#include "data/files/columnar/delta.h"

#include <algorithm>

#include "data/files/columnar/hybrid.h"

namespace ft::columnar {

DeltaIntegers::DeltaIntegers(Bytes bytes) : in_(bytes) {
  const std::uint64_t block = in_.varint();
  miniblocks_ = in_.varint();
  count_ = left_ = in_.varint();
  value_ = static_cast<std::uint64_t>(in_.zigzag());
  check(block > 0 && block <= (1U << 20) && miniblocks_ > 0 && miniblocks_ <= block &&
            block % miniblocks_ == 0 && block / miniblocks_ % 8 == 0,
        "blocks of differences of a size that is not allowed");
  check(count_ <= INT32_MAX, "more differences than a page can have");
  per_miniblock_ = block / miniblocks_;
}

void DeltaIntegers::start_miniblock() {
  if (widths_.empty()) {
    least_ = static_cast<std::uint64_t>(in_.zigzag());
    widths_ = in_.take(miniblocks_);
  }
  width_ = static_cast<unsigned char>(widths_[0]);
  widths_.remove_prefix(1);
  check(width_ <= 64, "differences of more than 64 bits");
  const std::uint64_t size = per_miniblock_ / 8 * static_cast<std::uint64_t>(width_);
  packed_ = in_.take(std::min<std::uint64_t>(size, in_.left().size()));  // the last one may be cut
  in_miniblock_ = per_miniblock_;
  bit_ = 0;
}

std::int64_t DeltaIntegers::next() {
  check(left_ > 0, "fewer differences than values");
  --left_;
  if (first_) {
    first_ = false;
    return static_cast<std::int64_t>(value_);
  }
  if (in_miniblock_ == 0) start_miniblock();
  --in_miniblock_;
  value_ += least_ + bits_at(packed_, bit_, width_);
  bit_ += static_cast<std::uint64_t>(width_);
  return static_cast<std::int64_t>(value_);
}

Bytes DeltaIntegers::behind() const {
  DeltaIntegers ahead = *this;
  std::uint64_t left = ahead.left_ - (ahead.first_ && ahead.left_ > 0);
  for (left -= std::min(left, ahead.in_miniblock_); left > 0; left -= std::min(left, per_miniblock_))
    ahead.start_miniblock();
  return ahead.in_.left();
}

}  // namespace ft::columnar
