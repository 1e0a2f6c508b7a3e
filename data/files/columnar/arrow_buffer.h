// The bytes of one buffer of a record batch: in memory, or a window on the file that moves along with who
// reads it.
#pragma once
#include <cstdint>
#include <string>

#include "data/files/columnar/bytes.h"
#include "engine/files/file.h"

namespace ft::columnar {

class ArrowBuffer {
 public:
  ArrowBuffer() = default;  // of no bytes
  explicit ArrowBuffer(std::string bytes);
  // The file outlives it and has these bytes.
  ArrowBuffer(const InputFile& file, std::int64_t offset, std::int64_t size);

  std::int64_t size() const { return size_; }
  // Lives until the next call. Throws Damage beyond its end.
  Bytes at(std::int64_t offset, std::int64_t size);

 private:
  const InputFile* file_ = nullptr;
  std::int64_t offset_ = 0, size_ = 0;
  std::string window_;
  std::int64_t begin_ = 0;  // of the window
};

}  // namespace ft::columnar
