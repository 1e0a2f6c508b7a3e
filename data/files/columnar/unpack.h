// The compressions of Parquet's pages and Arrow's buffers. The only file of this folder that knows their
// libraries.
#pragma once
#include <cstdint>
#include <string>

#include "data/files/columnar/bytes.h"

namespace ft::columnar {

// As parquet.thrift numbers them, and Arrow's frames.
enum class Codec : std::uint8_t {
  none = 0,
  snappy = 1,
  gzip = 2,
  lzo = 3,
  brotli = 4,
  lz4_hadoop = 5,  // blocks with their sizes in front; from some writers one bare block
  zstd = 6,
  lz4_raw = 7,
  lz4_frame = 100
};

// `packed` as the `size` bytes that it must unpack to. Throws Damage: when it is not so, or for a codec that
// is not read.
std::string unpack(Codec codec, Bytes packed, std::int64_t size);

std::uint32_t crc32_of(Bytes bytes);

// Bytes that the columns which are read hold at once. Each part is bounded, but a small file can claim many
// columns of large ones.
class Held {
 public:
  std::int64_t bytes() const { return bytes_; }
  // Asked before memory is taken; less than zero gives back. Throws Damage beyond 2 GiB.
  void add(std::int64_t bytes) {
    bytes_ += bytes;
    check(bytes_ <= kMost, "columns that need more than 2 GiB at once; write smaller pages or batches");
  }

 private:
  static constexpr std::int64_t kMost = std::int64_t{2} << 30;
  std::int64_t bytes_ = 0;
};

}  // namespace ft::columnar
