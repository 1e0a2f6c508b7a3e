#include "data/files/columnar/arrow_array.h"

#include <algorithm>

#include "data/files/json_quote.h"
#include "engine/core/error.h"

namespace ft::columnar {
namespace {

using Layout = ArrowField::Layout;
using Kind = Meaning::Kind;

constexpr std::int64_t kMostValues = std::int64_t{1} << 40;
constexpr int kInView = 12;  // length of a text that is stored in its view

std::int64_t integer_of(Bytes bytes, bool is_signed) {
  std::uint64_t value = is_signed && (bytes.back() & 0x80) ? ~std::uint64_t{0} : 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return static_cast<std::int64_t>(value);
}

}  // namespace

std::int64_t ArrowArray::integer(ArrowBuffer& buffer, std::int64_t i, int width, bool is_signed) {
  return integer_of(buffer.at(i * width, width), is_signed);
}

bool ArrowArray::is_null(std::int64_t i) {
  if (field_->layout == Layout::none && !dictionary_) return true;
  ArrowBuffer& valid = buffers_.at(0);
  return valid.size() > 0 && (valid.at(i / 8, 1)[0] >> (i % 8) & 1) == 0;
}

std::pair<std::int64_t, std::int64_t> ArrowArray::range(std::int64_t i) {
  const Bytes both = buffers_.at(1).at(i * field_->width, 2 * field_->width);
  const auto width = static_cast<std::size_t>(field_->width);
  const std::int64_t begin = integer_of(both.substr(0, width), true),
                     end = integer_of(both.substr(width), true);
  check(begin >= 0 && begin <= end, "offsets that go backwards");
  return {begin, end};
}

void ArrowArray::put(std::int64_t i, int depth, std::string& to) {
  check_row_size(to);
  check(depth <= 2 * kDeepest, "nested too deeply");
  check(i >= 0 && i < length_, "a value that its column does not have");
  const Layout layout = field_->layout;
  check(dictionary_ ||
            (layout != Layout::sparse_union && layout != Layout::dense_union && layout != Layout::run_ends),
        "values of a union or of runs, which are not read");
  if (is_null(i)) {
    to += "null";
    return;
  }
  if (dictionary_)
    return dictionary_->put(integer(buffers_[1], i, field_->index_width, field_->index_signed), depth, to);
  switch (layout) {
    case Layout::bits:
      to += buffers_[1].at(i / 8, 1)[0] >> (i % 8) & 1 ? "true" : "false";
      return;
    case Layout::fixed:
      return put_fixed(i, to);
    case Layout::texts: {
      const auto [begin, end] = range(i);
      return columnar::put(field_->meaning, {.bytes = buffers_[2].at(begin, end - begin)}, to);
    }
    case Layout::views:
      return put_view(i, to);
    case Layout::list: {
      const auto [begin, end] = range(i);
      return put_items(begin, end, depth, to);
    }
    case Layout::list_view: {
      const std::int64_t begin = integer(buffers_[1], i, field_->width, true),
                         size = integer(buffers_[2], i, field_->width, true);
      check(begin >= 0 && size >= 0 && size <= kMostValues && begin <= kMostValues, "a list of a wrong size");
      return put_items(begin, begin + size, depth, to);
    }
    case Layout::fixed_list:
      return put_items(i * field_->size, (i + 1) * field_->size, depth, to);
    case Layout::structure:
      return put_structure(i, depth, to);
    case Layout::map: {
      const auto [begin, end] = range(i);
      return put_pairs(begin, end, depth, to);
    }
    default:
      break;  // refused above
  }
}

void ArrowArray::put_fixed(std::int64_t i, std::string& to) {
  constexpr std::int64_t kDay = 86'400'000;  // milliseconds
  const Bytes bytes = buffers_.at(1).at(i * field_->width, field_->width);
  const Kind kind = field_->meaning.kind;
  if (kind == Kind::decimal) {
    const std::string big(bytes.rbegin(), bytes.rend());
    return columnar::put(field_->meaning, {.bytes = big}, to);
  }
  Value value{.bytes = bytes};
  if (kind == Kind::real)
    value.real = bytes.size() == 4 ? little<float>(bytes) : little<double>(bytes);
  else if (kind != Kind::half && kind != Kind::text && kind != Kind::other)
    value.integer = integer_of(bytes, kind != Kind::whole);
  if (kind == Kind::date && bytes.size() == 8)
    value.integer = value.integer / kDay - (value.integer % kDay < 0);
  columnar::put(field_->meaning, value, to);
}

void ArrowArray::put_view(std::int64_t i, std::string& to) {
  const Bytes view = buffers_.at(1).at(16 * i, 16);
  const auto size = little<std::int32_t>(view);
  check(size >= 0, "a text of a negative size");
  if (size <= kInView)
    return columnar::put(field_->meaning, {.bytes = view.substr(4, static_cast<std::size_t>(size))}, to);
  const auto buffer = little<std::int32_t>(view.substr(8)), offset = little<std::int32_t>(view.substr(12));
  check(buffer >= 0 && buffer < std::ssize(buffers_) - 2, "a text in a buffer that is not there");
  columnar::put(field_->meaning, {.bytes = buffers_[static_cast<std::size_t>(buffer) + 2].at(offset, size)},
                to);
}

void ArrowArray::put_items(std::int64_t begin, std::int64_t end, int depth, std::string& to) {
  to += '[';
  for (std::int64_t k = begin; k < end; ++k) {
    if (k > begin) to += ", ";
    children_.at(0).put(k, depth + 1, to);
  }
  to += ']';
}

void ArrowArray::put_structure(std::int64_t i, int depth, std::string& to) {
  to += '{';
  for (ArrowArray& child : children_)
    put_member(
        child.field_->name, [&] { child.put(i, depth + 1, to); }, to);
  to += '}';
}

// Writes an object if the keys are texts, else a list of pairs.
void ArrowArray::put_pairs(std::int64_t begin, std::int64_t end, int depth, std::string& to) {
  ArrowArray &keys = children_.at(0).children_.at(0), &values = children_[0].children_.at(1);
  const Layout layout = keys.field_->layout;
  const bool object =
      (layout == Layout::texts || layout == Layout::views) && keys.field_->meaning.kind == Kind::text;
  to += object ? '{' : '[';
  for (std::int64_t k = begin; k < end; ++k) {
    if (k > begin) to += ", ";
    check(!object || (k < keys.length_ && !keys.is_null(k)), "a map with a key that is null");
    if (!object) to += '[';
    keys.put(k, depth + 1, to);
    to += object ? ": " : ", ";
    values.put(k, depth + 1, to);
    if (!object) to += ']';
  }
  to += object ? '}' : ']';
}

void ArrowDictionary::put(std::int64_t index, int depth, std::string& to) {
  check(index >= 0 && !parts.empty(), "an index that the dictionary does not have");
  for (ArrowArray& part : parts) {
    if (index < part.length()) return part.put(index, depth + 1, to);
    index -= part.length();
  }
  throw Damage("an index that the dictionary does not have");
}

ArrowBatch::ArrowBatch(const FlatTable& batch, const Body& body, ArrowDictionaries& dictionaries, Held& held)
    : body_(body),
      dictionaries_(dictionaries),
      held_(held),
      nodes_(batch.list(1, 16)),
      buffers_(batch.list(2, 16)),
      view_counts_(batch.list(4, 8)),
      rows_(batch.number<std::int64_t>(0, 0)) {
  check(rows_ >= 0 && rows_ <= kMostValues, "a batch with a wrong number of rows");
  const auto packed = batch.table(3);
  if (!packed) return;
  codec_ = packed->number<std::int8_t>(0, 0);
  check(codec_ == 0 || codec_ == 1, "a compression that is not known");
  check(packed->number<std::int8_t>(1, 0) == 0, "a way of compression that is not known");
}

ArrowArray ArrowBatch::take(const ArrowField& field, bool read, bool plain) {
  ArrowArray a;
  a.field_ = &field;
  a.length_ = nodes_.number<std::int64_t>(node_++);
  const std::int64_t each = std::max({std::int64_t{1}, std::int64_t{field.width}, field.size});
  check(a.length_ >= 0 && a.length_ <= kMostValues / each, "a column of a wrong length");
  const bool by_index = field.dictionary && !plain;
  std::int64_t buffers = by_index ? 2 : buffers_of(field, body_.unions_valid);
  if (field.layout == Layout::views && !by_index) {
    const auto more = view_counts_.number<std::int64_t>(view_++);
    check(more >= 0 && more <= static_cast<std::int64_t>(buffers_.size()), "more buffers than there are");
    buffers += more;
  }
  for (; buffers > 0; --buffers) a.buffers_.push_back(take_buffer(read));
  if (by_index) {
    if (read) a.dictionary_ = &dictionaries_[*field.dictionary];
    return a;
  }
  for (const ArrowField& child : field.children) a.children_.push_back(take(child, read));
  return a;
}

ArrowBuffer ArrowBatch::take_buffer(bool read) {
  const auto offset = buffers_.number<std::int64_t>(buffer_),
             size = buffers_.number<std::int64_t>(buffer_, 8);
  ++buffer_;
  if (!read || size == 0) return {};
  check(offset >= 0 && size > 0 && offset <= body_.size && size <= body_.size - offset,
        "a buffer that lies outside of its batch");
  const std::int64_t begin = body_.offset + offset;
  if (codec_ < 0) return {body_.file, begin, size};
  check(size >= 8 && size <= kLargestPart, "a compressed buffer that is too short or larger than 256 MiB");
  std::string packed(static_cast<std::size_t>(size), '\0');
  body_.file.read(begin, packed.data(), size);
  const auto unpacked = little<std::int64_t>(packed);
  if (unpacked == -1) return {body_.file, begin + 8, size - 8};
  held_.add(std::clamp<std::int64_t>(unpacked, 0, kLargestPart));
  return ArrowBuffer(unpack(codec_ == 0 ? Codec::lz4_frame : Codec::zstd, Bytes(packed).substr(8), unpacked));
}

}  // namespace ft::columnar
