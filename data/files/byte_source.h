// Reads the bytes of a data file, and decompresses .gz with zlib and .zst with libzstd.
#pragma once
#include <cstdint>
#include <memory>

#include "data/files/files.h"

namespace ft {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Reads up to `size` bytes; returns 0 at the end. Throws UserError (input) if reading fails, or compressed
  // data is damaged.
  virtual std::size_t read(char* to, std::size_t size) = 0;
  virtual std::int64_t bytes_read() const = 0;  // of the file on disk
};

std::unique_ptr<ByteSource> open_bytes(const DataFile& file);

}  // namespace ft
