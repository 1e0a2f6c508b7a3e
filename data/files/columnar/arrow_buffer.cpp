#include "data/files/columnar/arrow_buffer.h"

#include <algorithm>

#include "data/files/row_reader.h"

namespace ft::columnar {
namespace {
constexpr std::int64_t kWindow = std::int64_t{256} << 10;
}

ArrowBuffer::ArrowBuffer(std::string bytes)
    : size_(static_cast<std::int64_t>(bytes.size())), window_(std::move(bytes)) {}

ArrowBuffer::ArrowBuffer(const InputFile& file, std::int64_t offset, std::int64_t size)
    : file_(&file), offset_(offset), size_(size) {}

Bytes ArrowBuffer::at(std::int64_t offset, std::int64_t size) {
  check(offset >= 0 && size >= 0 && offset <= size_ && size <= size_ - offset,
        "values that lie outside of their buffer");
  check(size <= kLongestRow, "a text that is longer than a row may be");
  const auto end = begin_ + static_cast<std::int64_t>(window_.size());
  if (file_ && (offset < begin_ || offset + size > end)) {
    window_.resize(static_cast<std::size_t>(std::max(size, std::min(kWindow, size_ - offset))));
    begin_ = offset;
    file_->read(offset_ + offset, window_.data(), static_cast<std::int64_t>(window_.size()));
  }
  return Bytes(window_).substr(static_cast<std::size_t>(offset - begin_), static_cast<std::size_t>(size));
}

}  // namespace ft::columnar
