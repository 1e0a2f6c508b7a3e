#include "data/files/columnar/arrow_messages.h"

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
  is_file_ = text(0, kMark.size()) == kMark;
  if (is_file_) {
    read_footer();
    return;
  }
  ArrowMessage first;
  check(next(first) && first.kind() == ArrowMessage::schema, "not an Arrow file: it begins with no schema");
  about_ = std::move(first.metadata);
}

void ArrowMessages::read_footer() {
  constexpr int kDictionaries = 2, kBatches = 3;
  constexpr std::uint64_t kBlock = 24;  // offset, sizes of metadata and body
  check(file_.size() >= 20 && text(file_.size() - 6, 6) == kMark,
        "damaged or cut short: an Arrow file ends with ARROW1");
  const std::int64_t size = number<std::int32_t>(file_.size() - 10);
  check(size >= 0 && size <= file_.size() - 18 && size <= kLargestMetadata,
        "damaged or cut short: its footer is longer than the file or 64 MiB");
  end_ = file_.size() - 10 - size;
  about_ = text(end_, static_cast<std::size_t>(size));
  for (const int field : {kDictionaries, kBatches}) {
    const FlatList list = FlatTable::root(about_).list(field, kBlock);
    for (std::uint64_t i = 0; i < list.size(); ++i) {
      blocks_.push_back(list.number<std::int64_t>(i));
      check(blocks_.back() >= 8 && blocks_.back() < end_, "a message that lies outside of the file");
    }
  }
  go_to_next_block();
}

void ArrowMessages::go_to_next_block() { at_ = next_block_ < blocks_.size() ? blocks_[next_block_++] : end_; }

FlatTable ArrowMessages::schema() const {
  const auto schema = FlatTable::root(about_).table(is_file_ ? 1 : 2);
  check(schema.has_value(), "not an Arrow file: it has no schema");
  return *schema;
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
  if (is_file_) go_to_next_block();
  return true;
}

std::string ArrowMessages::text(std::int64_t at, std::size_t size) const {
  std::string bytes(std::min(size, static_cast<std::size_t>(file_.size() - at)), '\0');
  file_.read(at, bytes.data(), static_cast<std::int64_t>(bytes.size()));
  return bytes;
}

}  // namespace ft::columnar
