// Parquet's DELTA_BINARY_PACKED (Encodings.md). Each value is stored as its difference from the value before,
// minus the least difference of its block, in as many bits as its miniblock needs. Sums wrap around.
#pragma once
#include <cstdint>

#include "data/files/columnar/bytes.h"

namespace ft::columnar {

class DeltaIntegers {
 public:
  explicit DeltaIntegers(Bytes bytes);

  std::uint64_t count() const { return count_; }
  // Returns the next value. Throws Damage after the last one.
  std::int64_t next();
  // Returns the bytes after the last value, however many values were read.
  Bytes behind() const;

 private:
  void start_miniblock();

  Cursor in_;
  std::uint64_t per_miniblock_ = 0, miniblocks_ = 0, count_ = 0;
  std::uint64_t left_ = 0;          // values that were not returned yet
  std::uint64_t value_ = 0;         // the last value
  std::uint64_t least_ = 0;         // least difference of the block
  Bytes widths_{};                  // bit widths of the block's remaining miniblocks
  Bytes packed_{};                  // bytes of the miniblock
  std::uint64_t in_miniblock_ = 0;  // values left in the miniblock
  std::uint64_t bit_ = 0;
  int width_ = 0;
  bool first_ = true;
};

}  // namespace ft::columnar
