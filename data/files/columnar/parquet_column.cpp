#include "data/files/columnar/parquet_column.h"

#include <algorithm>
#include <optional>

#include "data/files/columnar/compact.h"
#include "engine/core/error.h"

namespace ft::columnar {
namespace {

enum class PageKind : std::uint8_t { data = 0, index = 1, dictionary = 2, data_2 = 3 };

// Reads levels with their size before them, as in pages of the first version.
Hybrid take_levels(Cursor& in, int largest) {
  if (largest == 0) return {};
  const auto size = in.number<std::uint32_t>();
  check(size <= in.left().size(), "levels that are longer than their page");
  return {in.take(size), bits_for(static_cast<std::uint64_t>(largest))};
}

}  // namespace

struct ParquetColumn::Header {
  std::int64_t kind = 0;
  std::int32_t size = 0, packed_size = 0, values = 0;
  std::optional<std::int64_t> crc;
  std::int64_t encoding = 0;
  std::int32_t repetition_bytes = 0, definition_bytes = 0;      // of the second version
  bool packed_definitions = false, packed_repetitions = false;  // in the encoding BIT_PACKED
  bool compressed = true;

  // Reads the header; returns the bytes after it.
  Bytes read(Bytes bytes) {
    Compact in(bytes);
    in.structure([&](std::int64_t id) {
      if (id == 1) kind = in.integer();
      if (id == 2) size = in.small();
      if (id == 3) packed_size = in.small();
      if (id == 4) crc = in.integer();
      if (id == 5 || id == 7) read_page(in, id == 5);
      if (id == 8) read_page_2(in);
    });
    return in.left();
  }

 private:
  void read_page(Compact& in, bool data) {
    constexpr auto kPacked = static_cast<std::int64_t>(Encoding::bit_packed);
    in.structure([&](std::int64_t id) {
      if (id == 1) values = in.small();
      if (id == 2) encoding = in.integer();
      if (id == 3 && data) packed_definitions = in.integer() == kPacked;
      if (id == 4 && data) packed_repetitions = in.integer() == kPacked;
    });
  }
  void read_page_2(Compact& in) {
    in.structure([&](std::int64_t id) {
      if (id == 1) values = in.small();
      if (id == 4) encoding = in.integer();
      if (id == 5) definition_bytes = in.small();
      if (id == 6) repetition_bytes = in.small();
      if (id == 7) compressed = in.boolean();
    });
  }
};

ParquetColumn::ParquetColumn(const InputFile& file, const Node& leaf, const ColumnChunk& chunk,
                             std::int64_t end, Held& held)
    : file_(file),
      leaf_(leaf),
      codec_(chunk.codec),
      at_(chunk.offset),
      end_(end),
      left_(chunk.values),
      held_(held) {
  page_ = at_;
  check(!chunk.encrypted, "it is encrypted, which is not read");
  check(!chunk.in_other_file, "its values are in another file, which is not read");
  check(chunk.type.physical == leaf.type.physical, "its values are of another type than the schema says");
  check(left_ == 0 || (at_ >= 4 && at_ < end_), "its pages are not in the file");
  advance();
}

void ParquetColumn::advance() {
  repetition_ = definition_ = 0;
  if (left_ == 0) {
    ended_ = true;
    return;
  }
  while (in_page_ == 0) next_page();
  --in_page_;
  --left_;
  if (leaf_.repetition > 0) repetition_ = static_cast<int>(repetitions_.next());
  if (leaf_.definition > 0) definition_ = static_cast<int>(definitions_.next());
  check(repetition_ <= leaf_.repetition && definition_ <= leaf_.definition,
        "a level that the schema does not have");
  if (definition_ < leaf_.definition) return;
  value_ = values_->next();
  if (leaf_.meaning.kind == Meaning::Kind::whole && leaf_.type.physical == Physical::int32)
    value_.integer &= UINT32_MAX;
}

// Reads a page's header. Its size is not known, because it may hold texts as statistics, so growing pieces
// are tried.
ParquetColumn::Header ParquetColumn::read_header() {
  constexpr std::int64_t kFirst = 4096, kLargest = std::int64_t{16} << 20;
  std::string bytes;
  for (std::int64_t most = kFirst;; most *= 16) {
    const std::int64_t size = std::min(most, end_ - at_);
    bytes.resize(static_cast<std::size_t>(size));
    file_.read(at_, bytes.data(), size);
    try {
      Header header;
      at_ += size - static_cast<std::int64_t>(header.read(bytes).size());
      return header;
    } catch (const Damage&) {
      if (size == end_ - at_ || most >= kLargest) throw;
    }
  }
}

void ParquetColumn::next_page() {
  check(at_ < end_, "its pages end before its values");
  page_ = at_;
  const Header header = read_header();
  check(header.packed_size <= end_ - at_, "a page that is longer than the file");
  check(header.packed_size <= kLargestPart, "a page of more than 256 MiB; write smaller pages");
  held_.add(std::int64_t{header.packed_size} + header.size - page_bytes_);
  page_bytes_ = std::int64_t{header.packed_size} + header.size;
  bytes_.resize(static_cast<std::size_t>(header.packed_size));
  file_.read(at_, bytes_.data(), header.packed_size);
  at_ += header.packed_size;
  check(!header.crc || crc32_of(bytes_) == static_cast<std::uint32_t>(*header.crc),
        "a page whose checksum is not that of its bytes");
  check(header.encoding >= 0 && header.encoding <= UINT8_MAX, "an encoding that is not known");
  switch (header.kind) {
    case static_cast<std::int64_t>(PageKind::data):
      return open_first_version(header, bytes_);
    case static_cast<std::int64_t>(PageKind::dictionary):
      return open_dictionary(header, bytes_);
    case static_cast<std::int64_t>(PageKind::data_2):
      return open_second_version(header, bytes_);
    case static_cast<std::int64_t>(PageKind::index):
      return;
    default:
      throw Damage("a page of a kind that is not known");
  }
}

void ParquetColumn::open_dictionary(const Header& header, const std::string& packed) {
  check(!dictionary_, "two dictionaries");
  const auto encoding = static_cast<Encoding>(header.encoding);
  check(encoding == Encoding::plain || encoding == Encoding::plain_dictionary,
        "a dictionary that is not PLAIN");
  held_.add(header.size);
  dictionary_ = std::make_unique<Dictionary>(leaf_.type, unpack(codec_, packed, header.size), header.values);
}

void ParquetColumn::open_first_version(const Header& header, const std::string& packed) {
  // Some writers name this encoding for levels that are absent.
  check(!(header.packed_definitions && leaf_.definition > 0) &&
            !(header.packed_repetitions && leaf_.repetition > 0),
        "levels in the encoding BIT_PACKED, which is not read");
  unpacked_ = unpack(codec_, packed, header.size);
  Cursor in(unpacked_);
  repetitions_ = take_levels(in, leaf_.repetition);
  definitions_ = take_levels(in, leaf_.definition);
  in_page_ = header.values;
  values_ =
      open_values(static_cast<Encoding>(header.encoding), leaf_.type, in.left(), in_page_, dictionary_.get());
}

// Levels of the second version are never compressed, and have no size before them.
void ParquetColumn::open_second_version(const Header& header, const std::string& packed) {
  Cursor in(packed);
  const std::int64_t levels = std::int64_t{header.repetition_bytes} + header.definition_bytes;
  check(levels <= header.packed_size && levels <= header.size, "levels that are longer than their page");
  repetitions_ = {in.take(static_cast<std::uint64_t>(header.repetition_bytes)),
                  bits_for(static_cast<std::uint64_t>(leaf_.repetition))};
  definitions_ = {in.take(static_cast<std::uint64_t>(header.definition_bytes)),
                  bits_for(static_cast<std::uint64_t>(leaf_.definition))};
  const std::int64_t size = header.size - levels;
  if (size == 0 || in.empty())  // only nulls
    unpacked_.clear();
  else
    unpacked_ = unpack(header.compressed ? codec_ : Codec::none, in.left(), size);
  in_page_ = header.values;
  values_ =
      open_values(static_cast<Encoding>(header.encoding), leaf_.type, unpacked_, in_page_, dictionary_.get());
}

}  // namespace ft::columnar
