// The bytes of one buffer of a record batch: in memory, or read from the file through a moving window.
#pragma once
#include <cstdint>
#include <string>

#include "data/files/columnar/bytes.h"
#include "engine/files/file.h"

namespace ft::columnar {

class ArrowBuffer {
 public:
  ArrowBuffer() = default;  // no bytes
  explicit ArrowBuffer(std::string bytes);
  // The file must outlive the buffer, and hold these bytes.
  ArrowBuffer(const InputFile& file, std::int64_t offset, std::int64_t size);

  std::int64_t size() const { return size_; }
  // Returns bytes that live until the next call. Throws Damage if they reach beyond the end.
  Bytes at(std::int64_t offset, std::int64_t size);

 private:
  const InputFile* file_ = nullptr;
  std::int64_t offset_ = 0, size_ = 0;
  std::string window_;
  std::int64_t begin_ = 0;  // the window's offset in the buffer
};

}  // namespace ft::columnar
