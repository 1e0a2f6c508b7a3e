// Reading GGUF: nothing in the file is trusted.
#include <algorithm>
#include <cstring>
#include <set>

#include "engine/files/convert.h"
#include "engine/formats/gguf/gguf.h"
#include "engine/formats/gguf/gguf_types.h"

namespace ft {
namespace {

constexpr std::int64_t kMostHeader = std::int64_t{1} << 28;  // bytes; vocabularies are some MB

// Reads the header from front to back, a piece of the file at a time.
class GgufCursor {
 public:
  explicit GgufCursor(const InputFile& file)
      : file_(file), end_(static_cast<std::size_t>(std::min(file.size(), kMostHeader))) {}
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
    if (size > end_ - at_) fail("a string is longer than the file");
    return {take(static_cast<std::size_t>(size)), static_cast<std::size_t>(size)};
  }
  // Reads the number of the entries that follow, which have at least `least` bytes each.
  std::size_t count(std::size_t least, const char* what) {
    const auto n = number<std::uint64_t>();
    if (n > (end_ - at_) / least) fail(str("more ", what, " than the file has room for"));
    return static_cast<std::size_t>(n);
  }

 private:
  const char* take(std::size_t n) {
    if (n > end_ - at_) fail("it ends inside its header");
    while (n > bytes_.size() - at_) read_more();
    const char* p = bytes_.data() + at_;
    at_ += n;
    return p;
  }
  void read_more() {
    constexpr std::size_t kPiece = std::size_t{1} << 22;
    const std::size_t have = bytes_.size();
    bytes_.resize(std::min(have + kPiece, end_));
    file_.read(static_cast<std::int64_t>(have), bytes_.data() + have,
               static_cast<std::int64_t>(bytes_.size() - have));
  }

  const InputFile& file_;
  std::size_t end_;    // the longest header
  std::string bytes_;  // the part of the file that was read, from its beginning
  std::size_t at_ = 0;
};

template <class T>
std::vector<T> numbers(GgufCursor& c, std::size_t n) {
  std::vector<T> out(n);
  for (T& v : out) v = c.number<T>();
  return out;
}

// Integers of other widths are converted to the next wider type. Lists of types that ft does not use are
// refused.
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
    c.fail(str(printable(t.name), " is of type ", static_cast<std::uint32_t>(t.type), "; ft reads ",
               ggml_type_names()));
  if (!t.has_whole_blocks())
    c.fail(str(printable(t.name), " is ", form->name, " and its rows are not blocks of ", form->block));
  offset = static_cast<std::int64_t>(c.number<std::uint64_t>());
  return t;
}

// The keys and the tensors of one file.
struct GgufHeader {
  GgufKeys keys;
  std::vector<GgufTensor> tensors;
};

// Returns the key's value, or 0 if the key is absent or not an integer.
std::int64_t whole_number(const GgufKeys& keys, std::string_view name) {
  const auto at = std::ranges::find(keys, name, [](const auto& k) -> std::string_view { return k.first; });
  if (at == keys.end()) return 0;
  return std::visit(
      [](const auto& v) -> std::int64_t {
        if constexpr (std::is_integral_v<std::decay_t<decltype(v)>>)
          return static_cast<std::int64_t>(v);
        else
          return 0;
      },
      at->second);
}

GgufKeys read_keys(GgufCursor& c, std::size_t count) {
  GgufKeys keys;
  std::set<std::string> seen;
  for (std::size_t i = 0; i < count; ++i) {
    std::string key = c.text();
    if (key.empty() || !seen.insert(key).second)
      c.fail("the key " + printable(key) + " is empty or appears twice");
    keys.emplace_back(std::move(key), value_of(c));
  }
  return keys;
}

std::vector<GgufTensor> read_infos(GgufCursor& c, std::size_t count, std::int64_t alignment) {
  std::vector<GgufTensor> tensors;
  std::set<std::string> seen;
  std::int64_t expected = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::int64_t offset = 0;
    GgufTensor t = info_of(c, offset);
    if (!seen.insert(t.name).second) c.fail(printable(t.name) + " appears twice");
    if (offset != expected) c.fail(printable(t.name) + " does not follow the tensor before it");
    t.begin = offset;
    expected += gguf_padded(t.bytes(), alignment);
    tensors.push_back(std::move(t));
  }
  return tensors;
}

GgufHeader read_header(const InputFile& file) {
  GgufCursor c(file);
  if (!GgufFile::is_one(file.path())) c.fail("it does not begin with GGUF");
  c.number<std::uint32_t>();
  if (const auto version = c.number<std::uint32_t>(); version != kGgufVersion && version != 2)
    c.fail(str("version ", version, "; ft reads 2 and 3"));
  const std::size_t tensors = c.count(1, "tensors"), keys = c.count(12, "keys");
  GgufHeader header{read_keys(c, keys), {}};
  const auto has_alignment = [](const auto& k) { return k.first == "general.alignment"; };
  const std::int64_t alignment = std::ranges::any_of(header.keys, has_alignment)
                                     ? whole_number(header.keys, "general.alignment")
                                     : kGgufAlignment;
  if (alignment <= 0 || alignment > 1 << 30 || (alignment & (alignment - 1)) != 0)
    c.fail("general.alignment is not a power of two");
  header.tensors = read_infos(c, tensors, alignment);
  const std::int64_t data = gguf_padded(c.at(), alignment);
  for (GgufTensor& t : header.tensors) {
    t.begin += data;
    if (t.bytes() > file.size() - t.begin) c.fail("it ends before the data of " + printable(t.name));
  }
  return header;
}

// "-00002-of-00003.gguf"
std::string split_end(std::int64_t number, std::int64_t count) {
  const auto five = [](std::int64_t n) {
    const std::string digits = std::to_string(n);
    return std::string(5 - std::min<std::size_t>(digits.size(), 5), '0') + digits;
  };
  return str("-", five(number), "-of-", five(count), ".gguf");
}

}  // namespace

bool GgufFile::is_one(const std::string& path) {
  const InputFile file(path);
  char magic[4] = {};
  if (file.size() >= 4) file.read(0, magic, 4);
  return std::memcmp(magic, "GGUF", 4) == 0;
}

GgufFile::GgufFile(const std::string& path) {
  files_.emplace_back(path);
  GgufHeader header = read_header(files_.front());
  keys_ = std::move(header.keys);
  tensors_ = std::move(header.tensors);
  open_others();
}

void GgufFile::open_others() {
  const std::int64_t count = whole_number(keys_, "split.count");
  if (count <= 1) return;
  const std::string first = path(), end = split_end(1, count);
  const auto refuse = [&](const std::string& what) {
    throw UserError(Exit::input, str(printable(first), ": ", what));
  };
  if (whole_number(keys_, "split.no") != 0 || !first.ends_with(end))
    refuse(str("it is one of the ", count, " files of a split model; name the first, which ends with ", end));
  std::set<std::string> seen;
  for (const GgufTensor& t : tensors_) seen.insert(t.name);
  for (std::int64_t i = 2; i <= count; ++i) {
    files_.emplace_back(first.substr(0, first.size() - end.size()) + split_end(i, count));
    GgufHeader header = read_header(files_.back());
    if (whole_number(header.keys, "split.no") != i - 1 || whole_number(header.keys, "split.count") != count)
      refuse(printable(files_.back().path()) + " is not a part of the same model");
    for (GgufTensor& t : header.tensors) {
      if (!seen.insert(t.name).second) refuse(printable(t.name) + " is in two of its files");
      t.file = files_.size() - 1;
      tensors_.push_back(std::move(t));
    }
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
  files_[t.file].read(t.begin + block * form.bytes, bytes.data(), static_cast<std::int64_t>(bytes.size()));
  if (const auto dtype = gguf_dtype(t.type)) return convert(to, DType::f32, bytes.data(), *dtype, n);
  const auto* x = reinterpret_cast<const std::uint8_t*>(bytes.data());
  float values[kLargeBlock];
  for (std::int64_t b = block; b < end; ++b, x += form.bytes) {
    const std::int64_t from = std::max(first, b * form.block),
                       to_end = std::min(first + n, (b + 1) * form.block);
    if (to_end - from == form.block) {
      form.dequantize(x, to + (from - first));
      continue;
    }
    form.dequantize(x, values);
    std::copy(values + (from - b * form.block), values + (to_end - b * form.block), to + (from - first));
  }
}

}  // namespace ft
