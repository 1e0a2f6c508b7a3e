// Decompresses Parquet's pages and Arrow's buffers. No other file of this folder uses the compression
// libraries.
#pragma once
#include <cstdint>
#include <string>

#include "data/files/columnar/bytes.h"

namespace ft::columnar {

// Compression methods, with parquet.thrift's numbers, and Arrow's LZ4 frames.
enum class Codec : std::uint8_t {
  none = 0,
  snappy = 1,
  gzip = 2,
  lzo = 3,
  brotli = 4,
  lz4_hadoop = 5,  // blocks with their sizes before them; some writers store one bare block
  zstd = 6,
  lz4_raw = 7,
  lz4_frame = 100
};

// Returns `packed` decompressed to `size` bytes. Throws Damage if the size differs, or the codec is not
// supported.
std::string unpack(Codec codec, Bytes packed, std::int64_t size);

std::uint32_t crc32_of(Bytes bytes);

// Counts the bytes that all columns hold at once while they are read. Each part is bounded, but a small file
// can claim many columns of large parts.
class Held {
 public:
  std::int64_t bytes() const { return bytes_; }
  // Called before memory is taken; negative numbers give it back. Throws Damage above 2 GiB.
  void add(std::int64_t bytes) {
    bytes_ += bytes;
    check(bytes_ <= kMost, "columns that need more than 2 GiB at once; write smaller pages or batches");
  }

 private:
  static constexpr std::int64_t kMost = std::int64_t{2} << 30;
  std::int64_t bytes_ = 0;
};

}  // namespace ft::columnar
