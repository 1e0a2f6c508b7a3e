#include "data/columnar/arrow_messages.h"

#include <algorithm>

namespace ft::columnar {
namespace {
constexpr std::int64_t kLargestMetadata = std::int64_t{64} << 20;
constexpr Bytes kMark = "ARROW1";
}  // namespace

FlatTable ArrowMessage::header() const {
  const auto table = root().table(2);
  check(table.has_value(), "a message without a header");
  return *table;
}

ArrowMessages::ArrowMessages(const InputFile& file) : file_(file), end_(file.size()) {
  if (text(0, kMark.size()) != kMark) return;
  check(file_.size() >= 20 && text(file_.size() - 6, 6) == kMark,
        "damaged or cut short: an Arrow file ends with ARROW1");
  const std::int64_t footer = number<std::int32_t>(file_.size() - 10);
  check(footer >= 0 && footer <= file_.size() - 18,
        "damaged or cut short: its footer is longer than the file");
  at_ = 8;
  end_ = file_.size() - 10 - footer;
}

bool ArrowMessages::next(ArrowMessage& m) {
  if (at_ == end_) return false;
  check(end_ - at_ >= 4, "cut short");
  std::int64_t length = number<std::uint32_t>(at_);
  at_ += 4;
  if (length == 0xFFFFFFFF) {  // absent in the older format
    check(end_ - at_ >= 4, "cut short");
    length = number<std::uint32_t>(at_);
    at_ += 4;
  }
  if (length == 0) {
    at_ = end_;
    return false;
  }
  check(length <= end_ - at_ && length <= kLargestMetadata,
        "metadata that is longer than the file or 64 MiB");
  m.metadata = text(at_, static_cast<std::size_t>(length));
  at_ += length;
  m.body = at_;
  m.size = m.root().number<std::int64_t>(3, 0);
  check(m.size >= 0 && m.size <= end_ - at_, "cut short: a message is longer than the file");
  at_ += m.size;
  return true;
}

std::string ArrowMessages::text(std::int64_t at, std::size_t size) const {
  std::string bytes(std::min(size, static_cast<std::size_t>(file_.size() - at)), '\0');
  file_.read(at, bytes.data(), static_cast<std::int64_t>(bytes.size()));
  return bytes;
}

}  // namespace ft::columnar
