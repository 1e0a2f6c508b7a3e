// Parquet's DELTA_BINARY_PACKED (Encodings.md): each value by its difference from the one before, less the
// least difference of its block, in as many bits as its miniblock needs. Sums wrap around.
#pragma once
#include <cstdint>

#include "data/files/columnar/bytes.h"

namespace ft::columnar {

class DeltaIntegers {
 public:
  explicit DeltaIntegers(Bytes bytes);

  std::uint64_t count() const { return count_; }
  // Throws Damage behind the last.
  std::int64_t next();
  // The bytes behind the last value, wherever the next is.
  Bytes behind() const;

 private:
  void start_miniblock();

  Cursor in_;
  std::uint64_t per_miniblock_ = 0, miniblocks_ = 0, count_ = 0;
  std::uint64_t left_ = 0;          // values that are not given yet
  std::uint64_t value_ = 0;         // the last
  std::uint64_t least_ = 0;         // difference, of the block
  Bytes widths_{};                  // of its miniblocks that are not begun
  Bytes packed_{};                  // the miniblock
  std::uint64_t in_miniblock_ = 0;  // values left in it
  std::uint64_t bit_ = 0;
  int width_ = 0;
  bool first_ = true;
};

}  // namespace ft::columnar
