// The bytes of a data file, decompressed if need be: .gz by zlib, .zst by libzstd.
#pragma once
#include <cstdint>
#include <memory>

#include "data/files/files.h"

namespace ft {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Up to `size` bytes; 0 at the end. UserError (exit 3) when reading fails, or what is packed is damaged.
  virtual std::size_t read(char* to, std::size_t size) = 0;
  virtual std::int64_t bytes_read() const = 0;  // of the file on disk
};

std::unique_ptr<ByteSource> open_bytes(const DataFile& file);

}  // namespace ft
