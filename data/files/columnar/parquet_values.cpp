#include "data/files/columnar/parquet_values.h"

#include "data/files/columnar/delta.h"
#include "data/files/columnar/hybrid.h"
#include "engine/core/error.h"

namespace ft::columnar {
namespace {

// Decodes a value of a type whose values have one width.
Value fixed_value(const StoredType& type, Bytes bytes) {
  switch (type.physical) {
    case Physical::int32:
      return {.integer = little<std::int32_t>(bytes)};
    case Physical::int64:
      return {.integer = little<std::int64_t>(bytes)};
    case Physical::real32:
      return {.real = little<float>(bytes)};
    case Physical::real64:
      return {.real = little<double>(bytes)};
    default:
      return {.bytes = bytes};
  }
}

class PlainValues : public Values {
 public:
  PlainValues(const StoredType& type, Bytes page) : type_(type), in_(page) {}
  Value next() override {
    if (type_.physical == Physical::boolean) {
      const Value v{.integer = static_cast<std::int64_t>(bits_at(in_.left(), bit_, 1))};
      ++bit_;
      return v;
    }
    if (type_.physical == Physical::bytes) {
      const auto size = in_.number<std::uint32_t>();
      check(size <= in_.left().size(), "a text that is longer than its page");
      return {.bytes = in_.take(size)};
    }
    return fixed_value(type_, in_.take(static_cast<std::uint64_t>(type_.width())));
  }

 private:
  StoredType type_;
  Cursor in_;
  std::uint64_t bit_ = 0;  // position in booleans
};

class DictionaryValues : public Values {
 public:
  DictionaryValues(const Dictionary& dictionary, Bytes page) : dictionary_(dictionary) {
    Cursor in(page);
    const int width = in.number<std::uint8_t>();
    indices_ = Hybrid(in.left(), width);
  }
  Value next() override { return dictionary_.at(indices_.next()); }

 private:
  const Dictionary& dictionary_;
  Hybrid indices_;
};

class RunBooleans : public Values {
 public:
  explicit RunBooleans(Bytes page) {
    Cursor in(page);
    const auto size = in.number<std::uint32_t>();
    bits_ = Hybrid(in.take(size), 1);
  }
  Value next() override { return {.integer = bits_.next()}; }

 private:
  Hybrid bits_;
};

class DeltaValues : public Values {
 public:
  DeltaValues(const StoredType& type, Bytes page) : narrow_(type.physical == Physical::int32), in_(page) {}
  Value next() override {
    const std::int64_t v = in_.next();
    return {.integer = narrow_ ? static_cast<std::int32_t>(v) : v};
  }

 private:
  bool narrow_;
  DeltaIntegers in_;
};

class DeltaLengths : public Values {
 public:
  explicit DeltaLengths(Bytes page) : lengths_(page), in_(lengths_.behind()) {}
  Value next() override {
    const auto size = static_cast<std::int32_t>(lengths_.next());
    check(size >= 0 && static_cast<std::size_t>(size) <= in_.left().size(),
          "a text that is longer than its page");
    return {.bytes = in_.take(static_cast<std::uint64_t>(size))};
  }

 private:
  DeltaIntegers lengths_;
  Cursor in_;
};

// Decodes DELTA_BYTE_ARRAY: each text has the length of the prefix it shares with the text before, and the
// rest.
class DeltaTexts : public Values {
 public:
  DeltaTexts(const StoredType& type, Bytes page) : type_(type), prefixes_(page), ends_(prefixes_.behind()) {}
  Value next() override {
    const auto prefix = static_cast<std::int32_t>(prefixes_.next());
    check(prefix >= 0 && static_cast<std::size_t>(prefix) <= last_.size(),
          "a text that begins with more than the text before it");
    last_.resize(static_cast<std::size_t>(prefix));
    last_ += ends_.next().bytes;
    check(type_.physical == Physical::bytes || last_.size() == static_cast<std::size_t>(type_.length),
          "a value of another size than its column's");
    return {.bytes = last_};
  }

 private:
  StoredType type_;
  DeltaIntegers prefixes_;
  DeltaLengths ends_;
  std::string last_;
};

// Decodes BYTE_STREAM_SPLIT: the first bytes of all values, then the second bytes, and so on.
class SplitValues : public Values {
 public:
  SplitValues(const StoredType& type, Bytes page) : type_(type), page_(page) {
    const auto width = static_cast<std::size_t>(type.width());
    check(page.size() % width == 0, "split values of different sizes");
    count_ = page.size() / width;
    value_.resize(width);
  }
  Value next() override {
    check(at_ < count_, "fewer split values than the page says");
    for (std::size_t i = 0; i < value_.size(); ++i) value_[i] = page_[i * count_ + at_];
    ++at_;
    return fixed_value(type_, value_);
  }

 private:
  StoredType type_;
  Bytes page_;
  std::size_t count_ = 0, at_ = 0;
  std::string value_;
};

[[noreturn]] void refuse(Encoding encoding) {
  throw Damage(
      str("values in encoding ", static_cast<int>(encoding), ", which is not known, or not for their type"));
}

}  // namespace

Dictionary::Dictionary(const StoredType& type, std::string page, std::int64_t count)
    : type_(type), page_(std::move(page)), count_(static_cast<std::uint32_t>(count)) {
  check(type.physical != Physical::boolean, "a dictionary of booleans");
  check(count >= 0 && count <= static_cast<std::int64_t>(page_.size()),
        "a dictionary with fewer values than it says");
  if (type.physical != Physical::bytes) {
    check(static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(type.width()) <= page_.size(),
          "a dictionary with fewer values than it says");
    return;
  }
  Cursor in(page_);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto size = in.number<std::uint32_t>();
    offsets_.push_back(static_cast<std::uint32_t>(page_.size() - in.left().size()));
    check(size <= in.left().size(), "a text that is longer than its page");
    in.take(size);
  }
  offsets_.push_back(static_cast<std::uint32_t>(page_.size() - in.left().size()) + 4);
}

Value Dictionary::at(std::uint32_t index) const {
  check(index < count_, "an index that the dictionary does not have");
  const Bytes page = page_;
  if (type_.physical == Physical::bytes)  // four bytes of length lie between texts
    return {.bytes = page.substr(offsets_[index], offsets_[index + 1] - 4 - offsets_[index])};
  const auto width = static_cast<std::size_t>(type_.width());
  return fixed_value(type_, page.substr(index * width, width));
}

std::unique_ptr<Values> open_values(Encoding encoding, const StoredType& type, Bytes page, std::int64_t count,
                                    const Dictionary* dictionary) {
  const Physical p = type.physical;
  const bool texts = p == Physical::bytes;
  if (count == 0 || page.empty()) return std::make_unique<PlainValues>(type, Bytes{});  // only nulls
  switch (encoding) {
    case Encoding::plain:
      return std::make_unique<PlainValues>(type, page);
    case Encoding::plain_dictionary:
    case Encoding::dictionary_runs:
      check(dictionary != nullptr, "a page whose dictionary is missing");
      return std::make_unique<DictionaryValues>(*dictionary, page);
    case Encoding::runs:
      if (p == Physical::boolean) return std::make_unique<RunBooleans>(page);
      break;
    case Encoding::delta_binary_packed:
      if (p == Physical::int32 || p == Physical::int64) return std::make_unique<DeltaValues>(type, page);
      break;
    case Encoding::delta_length_byte_array:
      if (texts) return std::make_unique<DeltaLengths>(page);
      break;
    case Encoding::delta_byte_array:
      if (texts || p == Physical::fixed_bytes) return std::make_unique<DeltaTexts>(type, page);
      break;
    case Encoding::byte_stream_split:
      if (type.width() > 0) return std::make_unique<SplitValues>(type, page);
      break;
    default:
      break;
  }
  refuse(encoding);
}

}  // namespace ft::columnar
