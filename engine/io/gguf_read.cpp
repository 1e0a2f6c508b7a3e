// Reading GGUF: nothing in the file is trusted.
#include <algorithm>
#include <cstring>
#include <set>

#include "engine/io/convert.h"
#include "engine/io/gguf.h"
#include "engine/io/gguf_types.h"

namespace ft {
namespace {

constexpr std::int64_t kMostHeader = std::int64_t{1} << 28;  // bytes; vocabularies are some MB

// Reads the header from front to back.
class GgufCursor {
 public:
  explicit GgufCursor(const InputFile& file)
      : file_(file), bytes_(static_cast<std::size_t>(std::min(file.size(), kMostHeader)), '\0') {
    file.read(0, bytes_.data(), static_cast<std::int64_t>(bytes_.size()));
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw UserError(Exit::input, str(printable(file_.path()), ": not a valid GGUF file: ", what));
  }
  std::int64_t at() const { return static_cast<std::int64_t>(at_); }

  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value), sizeof value);
    return value;
  }
  std::string text() {
    const auto size = number<std::uint64_t>();
    if (size > bytes_.size() - at_) fail("a string is longer than the file");
    return {take(static_cast<std::size_t>(size)), static_cast<std::size_t>(size)};
  }
  // How many entries of at least `least` bytes follow.
  std::size_t count(std::size_t least, const char* what) {
    const auto n = number<std::uint64_t>();
    if (n > (bytes_.size() - at_) / least) fail(str("more ", what, " than the file has room for"));
    return static_cast<std::size_t>(n);
  }

 private:
  const char* take(std::size_t n) {
    if (n > bytes_.size() - at_) fail("it ends inside its header");
    const char* p = bytes_.data() + at_;
    at_ += n;
    return p;
  }

  const InputFile& file_;
  std::string bytes_;
  std::size_t at_ = 0;
};

template <class T>
std::vector<T> numbers(GgufCursor& c, std::size_t n) {
  std::vector<T> out(n);
  for (T& v : out) v = c.number<T>();
  return out;
}

// Integers of other widths become the next wider one; lists of types that ft does not use are refused.
GgufValue list_value(GgufCursor& c) {
  const auto type = static_cast<GgufType>(c.number<std::uint32_t>());
  const std::size_t n = c.count(type == GgufType::text ? 8 : 1, "list entries");
  switch (type) {
    case GgufType::text: {
      std::vector<std::string> out(n);
      for (std::string& v : out) v = c.text();
      return out;
    }
    case GgufType::f32:
      return numbers<float>(c, n);
    case GgufType::i32:
      return numbers<std::int32_t>(c, n);
    case GgufType::u32: {
      const auto all = numbers<std::uint32_t>(c, n);
      return std::vector<std::int32_t>(all.begin(), all.end());
    }
    case GgufType::u8:
      return numbers<std::uint8_t>(c, n);
    case GgufType::i8:
    case GgufType::flag: {
      const auto all = numbers<std::int8_t>(c, n);
      return std::vector<std::int32_t>(all.begin(), all.end());
    }
    default:
      c.fail("a list of a type that ft does not read");
  }
}

GgufValue value_of(GgufCursor& c) {
  switch (static_cast<GgufType>(c.number<std::uint32_t>())) {
    case GgufType::u8:
      return std::uint32_t{c.number<std::uint8_t>()};
    case GgufType::i8:
      return std::int32_t{c.number<std::int8_t>()};
    case GgufType::u16:
      return std::uint32_t{c.number<std::uint16_t>()};
    case GgufType::i16:
      return std::int32_t{c.number<std::int16_t>()};
    case GgufType::u32:
      return c.number<std::uint32_t>();
    case GgufType::i32:
      return c.number<std::int32_t>();
    case GgufType::f32:
      return c.number<float>();
    case GgufType::flag:
      return c.number<std::uint8_t>() != 0;
    case GgufType::text:
      return c.text();
    case GgufType::list:
      return list_value(c);
    case GgufType::u64:
    case GgufType::i64:
      return c.number<std::uint64_t>();
    case GgufType::f64:
      return static_cast<float>(c.number<double>());
  }
  c.fail("a value of an unknown type");
}

GgufTensor info_of(GgufCursor& c, std::int64_t& offset) {
  constexpr std::int64_t kMost = std::int64_t{1} << 46;  // elements
  GgufTensor t;
  t.name = c.text();
  if (t.name.empty() || t.name.size() > kGgufLongestName) c.fail("a tensor's name is empty or too long");
  const auto rank = c.number<std::uint32_t>();
  if (rank > 4) c.fail(printable(t.name) + " has more than four dimensions");
  std::int64_t elements = 1;
  for (std::uint32_t i = 0; i < rank; ++i) {
    const auto d = c.number<std::uint64_t>();
    if (d > static_cast<std::uint64_t>(kMost) || (d > 0 && elements > kMost / static_cast<std::int64_t>(d)))
      c.fail(printable(t.name) + " is too large");
    t.shape.insert(t.shape.begin(), static_cast<std::int64_t>(d));
    elements *= static_cast<std::int64_t>(d);
  }
  t.type = static_cast<GgmlType>(c.number<std::uint32_t>());
  const GgmlForm* form = form_of(t.type);
  if (!form)
    c.fail(str(printable(t.name), " is of type ", static_cast<std::uint32_t>(t.type),
               "; ft reads F32, F16, BF16, Q4_0, ", "Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K and IQ4_NL"));
  if (!t.has_whole_blocks())
    c.fail(str(printable(t.name), " is ", form->name, " and its rows are not blocks of ", form->block));
  offset = static_cast<std::int64_t>(c.number<std::uint64_t>());
  return t;
}

}  // namespace

bool GgufFile::is_one(const std::string& path) {
  const InputFile file(path);
  char magic[4] = {};
  if (file.size() >= 4) file.read(0, magic, 4);
  return std::memcmp(magic, "GGUF", 4) == 0;
}

GgufFile::GgufFile(const std::string& path) : file_(path) {
  GgufCursor c(file_);
  if (!is_one(path)) c.fail("it does not begin with GGUF");
  c.number<std::uint32_t>();
  if (const auto version = c.number<std::uint32_t>(); version != kGgufVersion && version != 2)
    c.fail(str("version ", version, "; ft reads 2 and 3"));
  const std::size_t tensors = c.count(1, "tensors"), keys = c.count(12, "keys");
  std::set<std::string> seen;
  for (std::size_t i = 0; i < keys; ++i) {
    std::string key = c.text();
    if (key.empty() || !seen.insert(key).second)
      c.fail("the key " + printable(key) + " is empty or appears twice");
    keys_.emplace_back(std::move(key), value_of(c));
  }
  const GgufValue* said = find("general.alignment");
  const std::int64_t alignment =
      said && std::get_if<std::uint32_t>(said) ? std::get<std::uint32_t>(*said) : 32;
  if (alignment == 0 || (alignment & (alignment - 1)) != 0) c.fail("general.alignment is not a power of two");
  seen.clear();
  std::int64_t expected = 0;
  for (std::size_t i = 0; i < tensors; ++i) {
    std::int64_t offset = 0;
    GgufTensor t = info_of(c, offset);
    if (!seen.insert(t.name).second) c.fail(printable(t.name) + " appears twice");
    if (offset != expected) c.fail(printable(t.name) + " does not follow the tensor before it");
    t.begin = offset;
    expected += gguf_padded(t.bytes(), alignment);
    tensors_.push_back(std::move(t));
  }
  const std::int64_t data = gguf_padded(c.at(), alignment);
  for (GgufTensor& t : tensors_) {
    t.begin += data;
    if (t.bytes() > file_.size() - t.begin) c.fail("it ends before the data of " + printable(t.name));
  }
}

const GgufValue* GgufFile::find(const std::string& key) const {
  const auto at = std::find_if(keys_.begin(), keys_.end(), [&](const auto& k) { return k.first == key; });
  return at == keys_.end() ? nullptr : &at->second;
}

std::vector<float> GgufFile::read(const GgufTensor& t) const {
  std::vector<float> out(static_cast<std::size_t>(t.elements()));
  read(t, 0, t.elements(), out.data());
  return out;
}

void GgufFile::read(const GgufTensor& t, std::int64_t first, std::int64_t n, float* to) const {
  require(first >= 0 && n >= 0 && first + n <= t.elements(), "elements that a tensor has");
  const GgmlForm& form = *form_of(t.type);
  const std::int64_t block = first / form.block, end = (first + n + form.block - 1) / form.block;
  std::string bytes(static_cast<std::size_t>((end - block) * form.bytes), '\0');
  file_.read(t.begin + block * form.bytes, bytes.data(), static_cast<std::int64_t>(bytes.size()));
  if (const auto dtype = gguf_dtype(t.type)) return convert(to, DType::f32, bytes.data(), *dtype, n);
  const auto* x = reinterpret_cast<const std::uint8_t*>(bytes.data());
  float values[kLargeBlock];
  for (std::int64_t b = block; b < end; ++b, x += form.bytes) {
    form.dequantize(x, values);
    const std::int64_t from = std::max(first, b * form.block),
                       to_end = std::min(first + n, (b + 1) * form.block);
    std::copy(values + (from - b * form.block), values + (to_end - b * form.block), to + (from - first));
  }
}

}  // namespace ft
